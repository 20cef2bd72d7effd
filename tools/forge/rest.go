package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

const (
	// apiVersion is the version of the REST API, and acceptJSON the media type of its responses.
	apiVersion = "2022-11-28"
	acceptJSON = "application/vnd.github+json"
	// maxAnswer limits the size of a response in bytes: a hundred workflow runs are about 2 MiB.
	maxAnswer = 8 << 20
	// maxMessage limits the text of a response in an error, in bytes.
	maxMessage = 1024
)

// rest makes requests to the REST API of GitHub. It remembers exhausted rate limits: until a limit is reset, requests fail
// without being sent.
type rest struct {
	net   *netguard.Client
	base  *url.URL
	token string

	mu sync.Mutex
	// until is the end of the exhausted limits, by resource; the limit of resource "" concerns every request.
	until map[string]time.Time
}

// get requests a path below the base and decodes the response into out.
func (r *rest) get(ctx context.Context, path string, query url.Values, accept string, out any) error {
	return r.do(ctx, http.MethodGet, path+"?"+query.Encode(), accept, "", out)
}

// post sends a JSON object to a path below the base and decodes the response into out.
func (r *rest) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return r.do(ctx, http.MethodPost, path, acceptJSON, string(body), out)
}

func (r *rest) do(ctx context.Context, method, path, accept, body string, out any) error {
	resource := resourceOf(path)
	if until, limited := r.limited(resource, time.Now()); limited {
		return &limitError{until: until, message: "no request was sent, because the limit is known to be used up"}
	}
	u, err := r.net.Parse(r.base.String() + strings.TrimSuffix(path, "?"))
	if err != nil {
		return err
	}
	res, err := r.net.Do(ctx, netguard.Request{Method: method, URL: u, Header: r.header(accept, body), Body: body, Limit: maxAnswer})
	if err != nil {
		return err
	}
	if err := r.check(res, resource); err != nil {
		return err
	}
	return json.Unmarshal(res.Body, out)
}

func (r *rest) header(accept, body string) http.Header {
	h := http.Header{"Accept": {accept}, "X-Github-Api-Version": {apiVersion}}
	if body != "" {
		h.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		h.Set("Authorization", "Bearer "+r.token)
	}
	return h
}

// check returns the error of an unsuccessful response, and remembers exhausted limits.
func (r *rest) check(res *netguard.Response, resource string) error {
	now := time.Now()
	switch {
	case res.Truncated:
		return fault.New(fault.GithubError, "the answer of GitHub is longer than %d MiB", maxAnswer>>20)
	case res.Status/100 == 2:
		if usedUp(res.Header) {
			r.remember(resource, resetTime(res.Header, now))
		}
		return nil
	}
	e := newResponseError(res)
	limit := e.limit(now)
	if limit == nil {
		return e
	}
	if limit.everywhere {
		resource = ""
	}
	r.remember(resource, limit.until)
	return limit
}

// resourceOf returns the resource whose rate limit a request uses up. The request for the limits uses up none.
func resourceOf(path string) string {
	switch {
	case strings.HasPrefix(path, "rate_limit"):
		return "rate_limit"
	case strings.HasPrefix(path, "search/"):
		return "search"
	default:
		return "core"
	}
}

// limited reports whether the limit of a resource is used up, and until when.
func (r *rest) limited(resource string, now time.Time) (time.Time, bool) {
	if resource == "rate_limit" {
		return time.Time{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	until := r.until[resource]
	if all := r.until[""]; all.After(until) {
		until = all
	}
	return until, until.After(now)
}

func (r *rest) remember(resource string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[resource] = until
}

// limitError is a rate limit that is used up.
type limitError struct {
	until time.Time
	// everywhere is set if the limit concerns every request, not only those of one resource.
	everywhere bool
	message    string
}

func (e *limitError) Error() string { return "rate limit: " + e.message }

// responseError is a response with an unsuccessful status.
type responseError struct {
	status     int
	header     http.Header
	message    string
	page       string
	details    []errorDetail
	redirected bool
}

// errorDetail is a reason for which GitHub rejected the input.
type errorDetail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// UnmarshalJSON reads a detail that is an object or only its message.
func (d *errorDetail) UnmarshalJSON(data []byte) error {
	type fields errorDetail
	if json.Unmarshal(data, (*fields)(d)) != nil {
		_ = json.Unmarshal(data, &d.Message) // what GitHub says in another form names no field
	}
	return nil
}

func newResponseError(res *netguard.Response) *responseError {
	e := &responseError{status: res.Status, header: res.Header, redirected: res.Refused != ""}
	var body struct {
		Message string        `json:"message"`
		Page    string        `json:"documentation_url"`
		Errors  []errorDetail `json:"errors"`
	}
	if res.Status/100 == 2 {
		return e
	}
	if json.Unmarshal(res.Body, &body) != nil {
		body.Message = string(res.Body)
	}
	e.message, e.page, e.details = fault.Clip(body.Message, maxMessage), body.Page, body.Errors
	return e
}

// Error is for the log of the node: the status and what GitHub says.
func (e *responseError) Error() string {
	return fmt.Sprintf("status %d: %s %+v", e.status, e.message, e.details)
}

// limit returns the rate limit that a response says is used up, or nil. GitHub has limits of resources, whose rest is a header
// of each response, and others that it announces only when they are used up.
func (e *responseError) limit(now time.Time) *limitError {
	after, err := strconv.Atoi(e.header.Get("Retry-After"))
	switch {
	case e.status != http.StatusForbidden && e.status != http.StatusTooManyRequests:
		return nil
	case usedUp(e.header):
		return &limitError{until: resetTime(e.header, now), message: e.message}
	case err == nil:
		return &limitError{until: now.Add(time.Duration(after) * time.Second), everywhere: true, message: e.message}
	case e.status == http.StatusTooManyRequests, strings.HasSuffix(e.page, "secondary-rate-limits"):
		return &limitError{until: now.Add(defaultWait), everywhere: true, message: e.message}
	default:
		return nil
	}
}

// usedUp reports whether the limit of a resource is used up.
func usedUp(h http.Header) bool { return h.Get("X-Ratelimit-Remaining") == "0" }

// resetTime returns when the limit of a resource is reset: in defaultWait if GitHub does not say or if that time has passed, and
// in maxWait at the latest.
func resetTime(h http.Header, now time.Time) time.Time {
	seconds, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	reset := time.Unix(seconds, 0)
	if err != nil || !reset.After(now) {
		return now.Add(defaultWait)
	}
	return earlier(reset, now.Add(maxWait))
}
