package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// maxHops limits the number of requests of one call that follows redirects to other servers.
const maxHops = 5

// request is one request of the protocol.
type request struct {
	method string
	path   tree.Path
	query  url.Values
	header http.Header
	body   string
}

// prepare returns the request for the transport, with the credential.
func (c *Client) prepare(ctx context.Context, r request) (netguard.Request, error) {
	u := *c.base
	var plain, escaped strings.Builder
	for _, key := range r.path {
		plain.WriteString("/" + key)
		escaped.WriteString("/" + url.PathEscape(key))
	}
	if len(r.path) == 0 {
		plain.WriteString("/")
		escaped.WriteString("/")
	}
	u.Path, u.RawPath = strings.TrimSuffix(c.base.Path, "/")+plain.String()+".json", strings.TrimSuffix(c.base.EscapedPath(), "/")+escaped.String()+".json"
	query := c.base.Query()
	maps.Copy(query, r.query)
	header := r.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if r.body != "" {
		header.Set("Content-Type", "application/json")
	}
	return c.authorize(ctx, netguard.Request{Method: r.method, URL: &u, Header: header, Body: r.body, Limit: c.cfg.MaxAnswer}, query)
}

// authorize returns the request r with the credential and with the given query.
func (c *Client) authorize(ctx context.Context, r netguard.Request, query url.Values) (netguard.Request, error) {
	if err := c.credential.apply(ctx, r.Header, query); err != nil {
		return r, err
	}
	u := *r.URL
	u.RawQuery = query.Encode()
	parsed, err := c.net.Parse(u.String())
	if err != nil {
		return r, refusal.New(refusal.ConnectionError, "the address of the request is invalid: %s", fault.From(err).Message)
	}
	r.URL = parsed
	return r, nil
}

// response is the type of a response, which depends on how the caller reads the body.
type response interface {
	*netguard.Response | *netguard.Stream
}

// roundTrip sends a request and follows redirects. A server redirects to the server that hosts the database.
func roundTrip[A response](
	ctx context.Context, c *Client, r request, send func(context.Context, netguard.Request) (A, error), redirect func(A) *redirection,
) (A, error) {
	next, err := c.prepare(ctx, r)
	if err != nil {
		return nil, c.contextError(ctx, err)
	}
	for range maxHops {
		res, err := send(ctx, next)
		if err != nil {
			return nil, c.transportError(ctx, err)
		}
		to := redirect(res)
		if to == nil {
			return res, nil
		}
		if next, err = c.follow(ctx, next, to); err != nil {
			return nil, c.contextError(ctx, err)
		}
	}
	return nil, refusal.New(refusal.ConnectionError, "there were %d redirects, and still no answer", maxHops)
}

// redirection is a redirect that the transport did not follow, because it points to another server.
type redirection struct {
	from     *url.URL
	location string
}

// redirected returns the redirect in a response, nil if there is none.
func redirected(status int, header http.Header, from *url.URL) *redirection {
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		return nil
	}
	return &redirection{from: from, location: header.Get("Location")}
}

// follow returns the request for a redirect. The request contains the credential, so the redirect must lead to the same
// server, from one Google server to another, or to a server that the operator has listed.
func (c *Client) follow(ctx context.Context, r netguard.Request, to *redirection) (netguard.Request, error) {
	target, err := to.from.Parse(to.location)
	if err != nil || to.location == "" {
		return r, refusal.New(refusal.ConnectionError, "%s answered with a redirect to nowhere", netguard.Endpoint(to.from))
	}
	parsed, err := c.net.Parse(target.String())
	if err != nil || !c.trusts(parsed) {
		return r, refusal.New(refusal.ConnectionError, "%s answered with a redirect to a server that is not trusted with the credential", netguard.Endpoint(to.from)).
			WithHint("firebase_realtime_url may be that of another place; net_allow lists further servers")
	}
	r.URL = parsed
	return c.authorize(ctx, r, parsed.Query())
}

// trusts reports whether a redirect to u may be followed.
func (c *Client) trusts(u *url.URL) bool {
	if u.Scheme != c.base.Scheme && u.Scheme != "https" {
		return false
	}
	if netguard.Endpoint(u) == netguard.Endpoint(c.base) {
		return true
	}
	port := u.Port()
	if port == "" {
		_, port, _ = net.SplitHostPort(strings.TrimPrefix(netguard.Endpoint(u), u.Scheme+"://"))
	}
	return isGoogle(u) && isGoogle(c.base) || c.cfg.Net.Lists(u.Hostname(), port)
}

// isGoogle reports whether a URL is that of a database on a Google server.
func isGoogle(u *url.URL) bool {
	host := u.Hostname()
	return u.Scheme == "https" && u.Port() == "" &&
		(strings.HasSuffix(host, ".firebaseio.com") || strings.HasSuffix(host, ".firebasedatabase.app"))
}

// do sends a request and returns the response. It returns an error if the status is not successful or the response is too
// large.
func (c *Client) do(ctx context.Context, r request) (*netguard.Response, error) {
	res, err := roundTrip(ctx, c, r, c.net.Do, func(res *netguard.Response) *redirection {
		return redirected(res.Status, res.Header, res.URL)
	})
	switch {
	case err != nil:
		return nil, err
	case res.Status >= 300:
		return nil, c.statusError(r, res.Status, res.Body)
	case res.Truncated:
		return nil, tooLarge(c.cfg.MaxAnswer)
	default:
		return res, nil
	}
}

// get sends a GET request and returns the decoded JSON and its version.
func (c *Client) get(ctx context.Context, r request) (data any, version string, err error) {
	r.method = http.MethodGet
	res, err := c.do(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(res.Body, &data); err != nil {
		return nil, "", notDatabaseError(netguard.Endpoint(res.URL))
	}
	return data, res.Header.Get("ETag"), nil
}

// withCallTimeout returns a context with the time limit of a call. It returns an error if ctx has already ended.
func (c *Client) withCallTimeout(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.cfg.Call, errSlow)
	return bounded, cancel, nil
}

// errSlow is the cause of the context of a call that exceeds Config.Call.
var errSlow = errors.New("the call took too long")
