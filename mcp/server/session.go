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

// Sessions stores the state from which a session can be reopened after a restart of the node.
type Sessions interface {
	SaveSession(ctx context.Context, id string, data []byte) error
	// LoadSession returns nil for an unknown id.
	LoadSession(ctx context.Context, id string) ([]byte, error)
	DeleteSession(ctx context.Context, id string) error
}

// record is the stored state of a session.
type record struct {
	// Owner is the identity that opened the session; only it may use the session.
	Owner string `json:"owner"`
	// Initialize is the unchanged request that opened the session.
	Initialize json.RawMessage `json:"initialize"`
	// Level is the last log level, Subscribed the subscribed resources.
	Level      mcp.LoggingLevel `json:"level,omitempty"`
	Subscribed []string         `json:"subscribed,omitempty"`
	// Listening are the subscriptions made by tools (tools.Spec.Session), which end with the process.
	Listening []string `json:"listening,omitempty"`
	// Asked are the tasks that the client knows to have questions.
	Asked []events.TaskID `json:"asked,omitempty"`
	// At is the time of the last change.
	At time.Time `json:"at"`
}

// sessionTable is the state of sessions that the SDK does not manage, by session id; "" is stdio.
type sessionTable struct {
	mu   sync.Mutex
	byID map[string]*session
}

// session is one session of 2025-11-25.
type session struct {
	mu sync.Mutex
	record
	// relays send the questions of tasks to the client.
	relays map[events.TaskID]*relay
	// displace ends the standing stream of the client and waits until it has ended.
	displace func()
	// cancelled are the ids of requests that the client has cancelled, the newest last.
	cancelled []string
	// roots are the client's roots, known if rooted is set.
	roots  []string
	rooted bool
	// watched counts the tasks that have their status changes reported.
	watched int
	// life is cancelled when the session ends; that ends all its requests.
	life context.Context //nolint:containedctx // a session outlives the requests that use it
	end  context.CancelFunc
}

func newSession() *session {
	life, end := context.WithCancel(context.Background())
	return &session{relays: map[events.TaskID]*relay{}, life: life, end: end}
}

// get returns the state of a session. It creates the state if there is none.
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

// find returns the state of a session, nil if there is none.
func (a *sessionTable) find(id string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id]
}

// ownedBy returns the state of an open session, nil if there is none or it has a different owner.
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

// remove ends and removes a session.
func (a *sessionTable) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.byID[id]; known != nil {
		known.end()
		delete(a.byID, id)
	}
}

// requestContext returns a context for a request that also ends with the server and with the session of the client. This is
// needed because the SDK waits for the requests of a session before it closes the session.
func (n *connections) requestContext(ctx context.Context, c client) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	leave := context.AfterFunc(n.life, stop)
	if c.session == nil || c.modern || c.session.ID() == "" {
		return ctx, func() { leave(); stop() }
	}
	part := context.AfterFunc(n.sessions.get(c.session.ID()).life, stop)
	return ctx, func() { leave(); part(); stop() }
}

// removeUnused ends and removes the sessions that were last changed earlier than before. It keeps live sessions, which may be in
// use although they do not change.
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

// maxCancelled is the most cancelled requests that a session remembers.
const maxCancelled = 64

// recordCancelled records that the client has cancelled a request.
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
		return c.wantsLog
	}
	known := n.sessions.get(c.session.ID())
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.Level != ""
}

// cancelled reports whether the client has cancelled the request rather than disconnected. Over HTTP, a client of 2026-07-28
// cancels a request by closing the stream of its answer.
func (n *connections) cancelled(c client) bool {
	if c.session == nil {
		return false
	}
	return c.modern && c.note(noteHTTP) != "" || n.sessions.get(c.session.ID()).hasCancelled(c.note(noteID))
}

// sessionIDs passes the id of the session being opened to the SDK.
type sessionIDs struct {
	// opening is locked while a session is opened, so that next is the id of that session.
	opening sync.Mutex
	next    string
}

// id is the GetSessionID function of the SDK.
func (f *sessionIDs) id() string { return f.next }

// newSessionID returns an id with more than 120 random bits.
func newSessionID() string { return rand.Text() }

// levels returns the log levels of MCP (S2-042).
func levels() []mcp.LoggingLevel {
	return []mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// routeLevel records the log level that a session sets.
func (n *connections) routeLevel(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, ok := req.GetParams().(*mcp.SetLoggingLevelParams)
	if !ok || !slices.Contains(levels(), p.Level) {
		return nil, invalidParams("the level must be one of debug, info, notice, warning, error, critical, alert, emergency")
	}
	n.update(ctx, c, func(r *record) { r.Level = p.Level })
	return next(ctx, "logging/setLevel", req)
}

// update changes the stored state of a session.
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
	if n.cfg.Stores.Sessions == nil || id == "" {
		return
	}
	if err := n.cfg.Stores.Sessions.SaveSession(ctx, id, data); err != nil {
		n.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mcp_session_not_kept", slog.Any("error", err))
	}
}

// connections holds the connected clients: their sessions, and the open streams to them.
type connections struct {
	*core

	sessions sessionTable
	streams  streams
	// replies are the answers being made.
	replies replies
}

// removeIdle removes sessions that have been idle for twice the session timeout, until ctx ends. They can be reopened.
func (n *connections) removeIdle(ctx context.Context) {
	tick := time.NewTicker(n.cfg.Limits.SessionTimeout / 4)
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
			n.sessions.removeUnused(n.cfg.Now().Add(-2*n.cfg.Limits.SessionTimeout), live)
		}
	}
}

// updateOpen changes the stored state of a session, unless it has ended.
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

// whileOpen returns a context that ends when the session or the server does.
func (n *connections) whileOpen(session *mcp.ServerSession) (context.Context, context.CancelFunc) {
	life, end := context.WithCancel(n.life)
	if id := session.ID(); id != "" {
		context.AfterFunc(n.sessions.get(id).life, end)
	}
	n.group.Go(func() { // ends with Close at the latest
		defer end()
		_ = session.Wait() // the reason does not matter
	})
	return life, end
}

// saveSubscription stores a resource subscription with its session, to restore it when the session is reopened.
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
