package netguard

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// Transport is an http.RoundTripper that sends the requests of a library through a Client. It follows redirects to the
// same endpoint, for example when a repository was renamed.
type Transport struct {
	Client *Client
	// Limit bounds the returned body, in bytes.
	Limit int64
	// TooLong is the error for a body that exceeds Limit; if it is nil, the body is truncated.
	TooLong error
}

// RoundTrip implements http.RoundTripper. Errors are those of Client.Parse and Client.Do, and TooLong.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := t.Client.Parse(req.URL.String())
	if err != nil {
		return nil, err
	}
	var body strings.Builder
	if req.Body != nil {
		defer req.Body.Close()
		if _, err := io.Copy(&body, req.Body); err != nil {
			return nil, err
		}
	}
	res, err := t.Client.Do(req.Context(), Request{Method: req.Method, URL: u, Header: req.Header, Body: body.String(), Limit: t.Limit})
	if err != nil {
		return nil, err
	}
	if res.Truncated && t.TooLong != nil {
		return nil, t.TooLong
	}
	return &http.Response{
		Status: http.StatusText(res.Status), StatusCode: res.Status, Header: res.Header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(res.Body)), ContentLength: int64(len(res.Body)),
	}, nil
}
