package netguard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Stream is an answer that is read while it comes.
type Stream struct {
	Status int
	Header http.Header
	// Body is what comes, without a limit; the caller closes it. Its errors are io.EOF and those of Do.
	Body io.ReadCloser
	// URL is where the answer comes from.
	URL *url.URL
	// Refused says why a redirect was not followed; the answer is then the redirect itself.
	Refused string
}

// Stream makes a request and returns when the headers of the answer are there. The body lasts until it is
// closed or the context ends. Request.Limit does not count. Errors are those of Do.
func (c *Client) Stream(ctx context.Context, r Request) (*Stream, error) {
	hops, res, err := c.send(ctx, r) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	body := &streamBody{ReadCloser: res.Body, failed: func(err error) error { return failed(ctx, err, Endpoint(hops.at)) }}
	return &Stream{Status: res.StatusCode, Header: res.Header, Body: body, URL: hops.at, Refused: hops.refused}, nil
}

// streamBody is the body of a stream, whose errors repeat nothing of the request.
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

// Dial makes a connection to host:port under the rules of the client, for protocols that are not requests.
// Errors: those of package net, and one for an address that is not public.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, "tcp", address)
}
