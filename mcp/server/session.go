package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Sessions keeps what a session needs to be opened again after a restart of the node.
type Sessions interface {
	SaveSession(ctx context.Context, id string, data []byte) error
	// LoadSession returns nil for an unknown id.
	LoadSession(ctx context.Context, id string) ([]byte, error)
	DeleteSession(ctx context.Context, id string) error
}

// record is what is kept of a session.
type record struct {
	// Owner is who opened it: nobody else may go on with it.
	Owner string `json:"owner"`
	// Initialize is the request that opened it, as it came.
	Initialize json.RawMessage `json:"initialize"`
	// Level is the log level that was set last, Subscribed the resources that are subscribed to.
	Level      mcp.LoggingLevel `json:"level,omitempty"`
	Subscribed []string         `json:"subscribed,omitempty"`
	// Listening are the subscriptions of tools (tools.Spec.Session), which end with the process.
	Listening []string `json:"listening,omitempty"`
	// Asked are the tasks whose questions the client knows of.
	Asked []events.TaskID `json:"asked,omitempty"`
	At    time.Time       `json:"at"`
}

// sessionTable is what is known of sessions beside what the SDK knows, by session id; "" is that of stdio.
type sessionTable struct {
	mu   sync.Mutex
	byID map[string]*session
}

// session is one session of 2025-11-25.
type session struct {
	mu sync.Mutex
	record
	// relays put the questions of tasks to the client.
	relays map[events.TaskID]*relay
	// displace ends the standing stream of the client and waits until it has ended.
	displace func()
	// cancelled are the ids of requests that the client has cancelled, the newest last.
	cancelled []string
	// roots are those of the client, once rooted says that it was asked.
	roots  []string
	rooted bool
	// watched counts the tasks whose status is reported.
	watched int
	// life ends with the session, and its requests with it, answered or not.
	life context.Context //nolint:containedctx // it is the life of a session, which outlives the requests
	end  context.CancelFunc
}

func newSession() *session {
	life, end := context.WithCancel(context.Background())
	return &session{relays: map[events.TaskID]*relay{}, life: life, end: end}
}

// get returns what is known of a session.
func (a *sessionTable) get(id string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = map[string]*session{}
	}
	known := a.byID[id]
	if known == nil {
		known = newSession()
		a.byID[id] = known
	}
	return known
}

// find returns what is known of a session that was heard of, nil for any other.
func (a *sessionTable) find(id string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id]
}

// ownedBy returns what is known of an open session of an owner, nil for any other.
func (a *sessionTable) ownedBy(id, owner string) *session {
	a.mu.Lock()
	known := a.byID[id]
	a.mu.Unlock()
	if known == nil {
		return nil
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.Owner != owner {
		return nil
	}
	return known
}

func (a *sessionTable) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byID)
}

// remove drops a session.
func (a *sessionTable) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.byID[id]; known != nil {
		known.end()
		delete(a.byID, id)
	}
}

// requestContext returns a context for a request that ends with the server and with the session of the client: the SDK
// waits for the requests of a session that it closes.
func (n *connections) requestContext(ctx context.Context, c client) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	leave := context.AfterFunc(n.life, stop)
	if c.session == nil || c.modern || c.session.ID() == "" {
		return ctx, func() { leave(); stop() }
	}
	part := context.AfterFunc(n.sessions.get(c.session.ID()).life, stop)
	return ctx, func() { leave(); part(); stop() }
}

// removeUnused forgets the sessions that have not changed since a time, but for those that live: they may be used all the
// while without a change.
func (a *sessionTable) removeUnused(before time.Time, live map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, s := range a.byID {
		s.mu.Lock()
		if id != "" && !live[id] && s.At.Before(before) {
			delete(a.byID, id)
			s.end()
		}
		s.mu.Unlock()
	}
}

// maxCancelled bounds the cancelled requests that a session remembers.
const maxCancelled = 64

// recordCancelled notes that the client has cancelled a request.
func (s *session) recordCancelled(request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelled = append(s.cancelled, request); len(s.cancelled) > maxCancelled {
		s.cancelled = s.cancelled[1:]
	}
}

func (s *session) hasCancelled(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.cancelled, request)
}

// wantsLogs reports whether the client has asked for log entries.
func (n *connections) wantsLogs(c client) bool {
	if c.modern || c.session == nil {
		return c.level
	}
	known := n.sessions.get(c.session.ID())
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.Level != ""
}

// cancelled reports whether the client has cancelled the request, rather than gone away. Over HTTP, a client of
// 2026-07-28 cancels by closing the stream of the answer.
func (n *connections) cancelled(c client) bool {
	if c.session == nil {
		return false
	}
	return c.modern && c.note(noteHTTP) != "" || n.sessions.get(c.session.ID()).hasCancelled(c.note(noteID))
}

// sessionIDs hands the SDK the id of the session that is being opened.
type sessionIDs struct {
	// opening is held while a session is opened, so that it gets the id that is meant for it.
	opening sync.Mutex
	next    string
}

// id implements the SDK's GetSessionID.
func (f *sessionIDs) id() string { return f.next }

// newSessionID returns an id with more than 120 random bits.
func newSessionID() string { return rand.Text() }

// levels are the log levels of MCP (S2-042).
func levels() []mcp.LoggingLevel {
	return []mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// routeLevel notes the log level that a session sets.
func (n *connections) routeLevel(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, ok := req.GetParams().(*mcp.SetLoggingLevelParams)
	if !ok || !slices.Contains(levels(), p.Level) {
		return nil, invalidParams("the level must be one of debug, info, notice, warning, error, critical, alert, emergency")
	}
	n.update(ctx, c, func(r *record) { r.Level = p.Level })
	return next(ctx, "logging/setLevel", req)
}

// update changes what is kept of a session.
func (n *connections) update(ctx context.Context, c client, change func(*record)) {
	if c.session == nil || c.modern {
		return
	}
	id := c.session.ID()
	known := n.sessions.get(id)
	known.mu.Lock()
	change(&known.record)
	known.At = n.cfg.Now()
	data := mustJSON(known.record)
	known.mu.Unlock()
	n.save(ctx, id, data)
}

func (n *connections) save(ctx context.Context, id string, data []byte) {
	if n.cfg.Sessions == nil || id == "" {
		return
	}
	if err := n.cfg.Sessions.SaveSession(ctx, id, data); err != nil {
		n.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mcp_session_not_kept", slog.Any("error", err))
	}
}

// connections are the clients that are there: their sessions, and the streams on which they hear of something.
type connections struct {
	*core

	sessions sessionTable
	streams  streams
	// replies are the answers that are under way.
	replies replies
}

// removeIdle forgets the sessions that nobody has used for long; they can be opened again.
func (n *connections) removeIdle(ctx context.Context) {
	tick := time.NewTicker(n.cfg.SessionTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			live := map[string]bool{}
			for session := range n.sdk.Sessions() {
				live[session.ID()] = true
			}
			n.sessions.removeUnused(n.cfg.Now().Add(-2*n.cfg.SessionTimeout), live)
		}
	}
}

// updateOpen changes what is kept of a session, unless that is over.
func (n *connections) updateOpen(ctx context.Context, id string, change func(*record)) {
	n.sessions.mu.Lock()
	known := n.sessions.byID[id]
	n.sessions.mu.Unlock()
	if known == nil || known.life.Err() != nil {
		return
	}
	known.mu.Lock()
	change(&known.record)
	data := mustJSON(known.record)
	known.mu.Unlock()
	n.save(ctx, id, data)
}

// whileOpen returns a context that ends with a session.
func (n *connections) whileOpen(session *mcp.ServerSession) (context.Context, context.CancelFunc) {
	life, end := context.WithCancel(n.life)
	if id := session.ID(); id != "" {
		context.AfterFunc(n.sessions.get(id).life, end)
	}
	n.group.Go(func() { // until Close at the latest
		defer end()
		_ = session.Wait() // why it has ended does not matter
	})
	return life, end
}

// saveSubscription keeps what a session subscribes to, for when it is opened again.
func (n *connections) saveSubscription(ctx context.Context, c client, uri string) error {
	full := false
	n.update(ctx, c, func(r *record) {
		if slices.Contains(r.Subscribed, uri) {
			return
		}
		if full = len(r.Subscribed) >= maxListed; !full {
			r.Subscribed = append(r.Subscribed, uri)
		}
	})
	if full {
		return fault.New(fault.QuotaExceeded, "a session subscribes to at most %d resources", maxListed)
	}
	return nil
}
