package netguard

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// Transport carries the requests of a library through a Client. Redirects inside of the server are followed, such as those
// of something with a new name.
type Transport struct {
	Client *Client
	// Limit is how many bytes of an answer are kept.
	Limit int64
	// TooLong is the error of an answer that is longer; nil hands out what was kept.
	TooLong error
}

// RoundTrip makes a request. Errors are those of Client.Parse and Client.Do, and TooLong.
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
