package registry

import (
	"context"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// InFlight returns the number of calls of a server in progress.
func (r *Registry) InFlight(name string) int {
	s, ok := r.server(name)
	if !ok {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return 0
	}
	return s.live.calls
}

// Health is the health of a server, for tests.
type Health struct{ health }

// NewHealth returns that of a server that is about to be connected.
func NewHealth(policy *RetryPolicy) *Health { return &Health{newHealth(policy)} }

// Status and Breaker return the state.
func (h *Health) Status() Status        { return h.status }
func (h *Health) Breaker() BreakerState { return h.breaker.State }

// Connected, Answered, Silent, Failed and Barred are the events.
func (h *Health) Connected(complete bool)       { h.connected(complete) }
func (h *Health) Answered()                     { h.answered() }
func (h *Health) Silent() bool                  { return h.unanswered(time.Time{}) }
func (h *Health) Failed()                       { h.failed(time.Time{}) }
func (h *Health) Barred()                       { h.loginRequired() }
func (h *Health) Delay(r float64) time.Duration { return h.delay(r) }

// NewCheck returns the check of Validate for the content of a file.
func NewCheck() (func(content []byte) ([]SchemaError, error), error) {
	c, err := newChecker(Schema())
	return func(content []byte) ([]SchemaError, error) {
		d, err := parseDocument("f.json", content)
		if err != nil {
			return nil, err
		}
		_, problems := c.load(d)
		return problems, nil
	}, err
}

// Mark wraps the stream of answers to a call.
func Mark(body io.ReadCloser, token string) io.ReadCloser { return tagStream(body, token) }

// Dead is a link that was closed for a reason before the SDK could use it. Opened counts how often it was tried.
type Dead struct {
	Reason error
	Opened int
}

// Connect implements mcp.Transport. The SDK only sees that the link is closed.
func (d *Dead) Connect(context.Context) (mcp.Connection, error) { return nil, io.EOF }

func (d *Dead) close()             {}
func (d *Dead) stderrTail() string { return "" }
func (d *Dead) closeReason() error { return d.Reason }

// Dial returns the error of opening a session on the link, also as text for people.
func (d *Dead) Dial(ctx context.Context) (text string, err error) {
	_, err = connect(ctx, time.Minute, connectOptions{pendingCalls: newPendingCalls(time.Minute), open: func() (link, error) {
		d.Opened++
		return d, nil
	}})
	return reasonOf(err), err
}
