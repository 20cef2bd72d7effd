package registry

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
)

// maxBody is the most bytes of a response that is one JSON document, and of an event in a stream.
const maxBody = 16 << 20

// remote is a link to a URL.
type remote struct {
	endpoint string
	client   *http.Client
	idle     func()
	conceal  func(string) string

	mu   sync.Mutex
	conn mcp.Connection
	// refused is the last refusal of a request, returned by closeReason.
	refused error
}

// newRemote returns a link to the URL of a definition. It returns VALIDATION_ERROR for an invalid URL.
func newRemote(e expandedConfig) (*remote, error) {
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.ValidationError, "it is not an http or https URL").WithField("baseURL").
			WithHint("are all variables in it set?")
	}
	const dial, idle = 10 * time.Second, 90 * time.Second
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dial}).DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dial, IdleConnTimeout: idle, MaxIdleConnsPerHost: 4,
	}
	r := &remote{endpoint: e.BaseURL, idle: base.CloseIdleConnections, conceal: e.conceal}
	var transport http.RoundTripper = base
	if e.login != nil {
		transport = &tokenTransport{base: base, source: e.login, origin: u, onLoginRequired: r.loginRequired}
	}
	r.client = &http.Client{
		Transport:     aliasTransport{&headerTransport{base: transport, origin: u, set: headersOf(e.MCPConfig), onRefused: r.recordRefusal}},
		CheckRedirect: func(to *http.Request, via []*http.Request) error { return r.checkRedirect(u, to.URL, len(via)) },
	}
	return r, nil
}

// checkRedirect refuses redirects to a foreign origin: requests are sent only to the origin in the definition.
func (r *remote) checkRedirect(from, to *url.URL, hops int) error {
	const maxHops = 10
	if to.Scheme == from.Scheme && to.Host == from.Host && hops < maxHops {
		return nil
	}
	text := "the server redirects to " + maskURL(to.String()) + "; if that is right, write it as baseURL"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = errors.New(text)
	return r.refused
}

// headersOf returns the headers of a definition, which are added to each request.
func headersOf(c MCPConfig) http.Header {
	h := http.Header{}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	if c.Bearer != "" {
		h.Set("Authorization", "Bearer "+c.Bearer)
	}
	return h
}

// recordRefusal records that the server has refused a request with an HTTP status.
func (r *remote) recordRefusal(status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.refused, oauth.ErrLogin) {
		return // the missing login is the reason
	}
	r.refused = errors.New("the server answers " + status)
}

// loginRequired records that there is no token for the server, and closes the link, which cannot be used without a token. It
// ignores errors other than oauth.ErrLogin.
func (r *remote) loginRequired(err error) {
	if !errors.Is(err, oauth.ErrLogin) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = err
	go r.close() // in a goroutine, because closing sends a request too
}

// Connect implements mcp.Transport.
func (r *remote) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := (&mcp.StreamableClientTransport{Endpoint: r.endpoint, HTTPClient: r.client, MaxEventSize: maxBody}).Connect(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = conn
	return conn, err
}

func (r *remote) close() {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // the connection is closed even after an error
	}
	r.idle()
}

func (*remote) stderrTail() string { return "" }

func (r *remote) closeReason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// headerTransport adds the headers of a definition to requests to its origin, and limits the size of responses. It calls onRefused
// for a response with status 401, 403 or 5xx.
type headerTransport struct {
	base      http.RoundTripper
	origin    *url.URL
	set       http.Header
	onRefused func(status string)
}

// RoundTrip implements http.RoundTripper.
func (h *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if sameOrigin(req.URL, h.origin) {
		req = req.Clone(req.Context())
		maps.Copy(req.Header, h.set)
	}
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode >= http.StatusInternalServerError {
		h.onRefused(resp.Status)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxBody}
	}
	return resp, nil
}

// limitedBody is a body with a size limit.
type limitedBody struct {
	io.ReadCloser

	left int
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the answer has more than " + strconv.Itoa(maxBody>>20) + " MiB")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
