package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// maxAnswer is the most bytes of the body of a response, maxHeader the most bytes of its headers.
	maxAnswer, maxHeader = 1 << 20, 64 << 10
	// requestTimeout is the timeout of a request, including its response.
	requestTimeout = 20 * time.Second
)

// newClient returns a client for requests to authorization servers. It follows a few redirects of GET requests, only to the same
// origin. It does not follow redirects of other requests.
func newClient() *http.Client {
	const redirects = 3
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: requestTimeout / 2}).DialContext,
			TLSHandshakeTimeout: requestTimeout / 2, MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0]
			if first.Method != http.MethodGet || len(via) > redirects || origin(req.URL) != origin(first.URL) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// fetch reads a JSON document into a value, and reports whether the document exists. It returns TOOL_UNAVAILABLE if the server
// cannot be reached, and FORBIDDEN for an invalid document.
func (l *Logins) fetch(ctx context.Context, address string, document any) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, fault.New(fault.Forbidden, "it is not a valid address: %q", clip(address))
	}
	req.Header.Set("Accept", "application/json")
	resp, err := l.http.Do(req)
	if err != nil {
		return false, unreachable(ctx, req.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return false, fault.New(fault.ToolUnavailable, "%s answers %d", clip(address), resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		return false, nil
	}
	content, err := readAnswer(resp.Body)
	if err == nil && json.Unmarshal(content, document) != nil {
		err = errors.New("it is not the JSON document that is expected")
	}
	if err != nil {
		return false, fault.New(fault.Forbidden, "the document at %s cannot be used: %w", clip(address), err)
	}
	return true, nil
}

// readAnswer reads the body of a response. It returns an error if the body has more than maxAnswer bytes.
func readAnswer(body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if len(content) > maxAnswer {
		return nil, errors.New("it has more than 1 MiB")
	}
	return content, err
}

// unreachable returns the error for a request that was not answered. It shows only the origin of the URL, because the rest may
// contain secrets.
func unreachable(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	return fault.Wrap(fault.ToolUnavailable, err, origin(u)+" cannot be reached: "+err.Error())
}
