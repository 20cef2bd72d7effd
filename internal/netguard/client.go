package netguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxHops bounds how many redirects are followed.
const maxHops = 10

// Request is an HTTP request.
type Request struct {
	Method string
	// URL must come from Client.Parse.
	URL *url.URL
	// Header must have been checked with Headers.
	Header http.Header
	Body   string
	// Limit bounds the returned response body, after decompression, in bytes.
	Limit int64
	// Follow reports whether a redirect to another endpoint is followed; nil follows none.
	Follow func(endpoint string) bool
	// Stay follows no redirect at all.
	Stay bool
}

// Response is an HTTP response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Truncated is true when the body was longer than the limit.
	Truncated bool
	// URL is the URL of the final response.
	URL *url.URL
	// Refused is the reason why a redirect was not followed, or "". The Response is then the redirect itself.
	Refused string
}

// Do makes a request. No HTTP status is an error. Errors: TIMEOUT and CANCELLED when ctx ends, FORBIDDEN for an address
// that is not public, NETWORK_ERROR with the reason CONNECTION_ERROR for any other failure.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	hops, res, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := &Response{Status: res.StatusCode, Header: res.Header, URL: hops.at, Refused: hops.refused}
	out.Body, out.Truncated, err = read(res.Body, r.Limit)
	if err != nil {
		return nil, failed(ctx, err, Endpoint(hops.at))
	}
	return out, nil
}

// send makes a request and returns when the response headers have arrived. The caller must close the body.
func (c *Client) send(ctx context.Context, r Request) (*redirects, *http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), strings.NewReader(r.Body))
	if err != nil {
		return nil, nil, invalid("this is not a valid request")
	}
	req.Header = r.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "orch")
	}
	hops := &redirects{client: c, follow: r.Follow, stay: r.Stay, first: Endpoint(r.URL), at: r.URL}
	client := &http.Client{Transport: c.transport, CheckRedirect: hops.check}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, failed(ctx, err, Endpoint(hops.at))
	}
	return hops, res, nil
}

// read returns at most limit bytes, and reports whether r contains more.
func read(r io.Reader, limit int64) (body []byte, truncated bool, err error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if n > limit {
		b.Truncate(int(limit))
		return b.Bytes(), true, nil
	}
	return b.Bytes(), false, err
}

// redirects follows the redirects of one request.
type redirects struct {
	client *Client
	follow func(endpoint string) bool
	stay   bool
	first  string
	// at is the URL of the latest request.
	at      *url.URL
	refused string
	// strayed is true after a redirect to another endpoint.
	strayed bool
}

// check is the CheckRedirect function of the client: it decides whether a redirect is followed. After a redirect to
// another endpoint only headers without information about the caller are sent, even back to the first endpoint: the
// redirecting server must not be able to use the caller's credentials.
func (h *redirects) check(req *http.Request, via []*http.Request) error {
	to, why := h.next(req, len(via))
	if why != "" {
		h.refused = why
		return http.ErrUseLastResponse
	}
	if Endpoint(to) != h.first {
		h.strayed = true
	}
	if h.strayed {
		for name := range req.Header {
			if !safeAfterRedirect(name) {
				req.Header.Del(name)
			}
		}
	}
	req.Header.Del("Referer") // its query may contain a secret
	req.URL, req.Host = to, ""
	h.at = to
	return nil
}

// next returns the target of a redirect, or the reason why it is not followed. n is the number of earlier requests.
func (h *redirects) next(req *http.Request, n int) (*url.URL, string) {
	to, err := h.client.Parse(req.URL.String())
	switch {
	case h.stay:
		return nil, "this request follows none"
	case errors.Is(err, errNotPublic):
		return nil, "it leads to an address that is not public"
	case err != nil:
		return nil, "it does not lead to a plain http or https URL"
	case Endpoint(to) != h.first && (h.follow == nil || !h.follow(Endpoint(to))):
		return nil, "it leads to " + Endpoint(to) + ", which this call may not access"
	case n > maxHops:
		return nil, "there were 10 redirects before it"
	}
	return to, ""
}
