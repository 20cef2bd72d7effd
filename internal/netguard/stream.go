package netguard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Stream is a response with a streamed body.
type Stream struct {
	Status int
	Header http.Header
	// Body is the body, without a size limit. The caller must close it. Read returns io.EOF and the errors of Do.
	Body io.ReadCloser
	// URL is the URL of the final response.
	URL *url.URL
	// Refused is the reason why a redirect was not followed, or "". The Stream is then the redirect itself.
	Refused string
}

// Stream makes a request and returns when the response headers have arrived. The body can be read until it is closed or
// ctx ends. Request.Limit is ignored. Errors are those of Do.
func (c *Client) Stream(ctx context.Context, r Request) (*Stream, error) {
	hops, res, err := c.send(ctx, r) //nolint:bodyclose // the reader of the Stream closes it
	if err != nil {
		return nil, err
	}
	body := &streamBody{ReadCloser: res.Body, failed: func(err error) error { return failed(ctx, err, Endpoint(hops.at)) }}
	return &Stream{Status: res.StatusCode, Header: res.Header, Body: body, URL: hops.at, Refused: hops.refused}, nil
}

// streamBody is the body of a Stream. Its errors contain no details of the request.
type streamBody struct {
	io.ReadCloser
	failed func(error) error
}

func (s *streamBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.failed(err)
	}
	return n, err
}

// Dial connects to host:port, for a protocol that is not HTTP. The client's rules for addresses apply. Errors are those
// of package net, and an error for an address that is not public.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, "tcp", address)
}
