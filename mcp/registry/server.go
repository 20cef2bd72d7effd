package registry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/mcp/oauth"
)

const (
	// averaged is the number of calls in the average latency.
	averaged = 100
	// relistDelay is the least time between two reads of a server's tools. A server may report changes in quick succession.
	relistDelay = 250 * time.Millisecond
)

// server is a server with a definition, and its connection.
type server struct {
	name string
	r    *Registry

	mu      sync.Mutex
	def     definition
	enabled bool
	health  health
	// live is the connection that calls use; nil if there is none.
	live      *activeSession
	metrics   Metrics
	latencies []time.Duration
	checked   time.Time
	lastError string
	// limits are the concurrency and rate limits of the definition.
	limits *limits
	// removed is set when the definition was deleted.
	removed bool
	// changed is closed and replaced when the result of acquire may have changed.
	changed chan struct{}

	// stop ends the supervisor (goroutine of supervise), done is closed when it has ended; both are nil before the first start.
	// first is closed after the first attempt to connect. Registry.admin guards these fields.
	stop        context.CancelFunc
	done, first chan struct{}
}

// activeSession is a connection in use. server.mu guards calls and retired.
type activeSession struct {
	*session

	timeout time.Duration
	// calls counts the calls in progress.
	calls int
	// retired is set when the connection gets no new calls; idle is then closed when the last call has ended.
	retired bool
	idle    chan struct{}
}

// newServer returns an unconnected server.
func newServer(r *Registry, def definition, enabled bool) *server {
	return &server{
		name: def.Name, r: r, def: def, enabled: enabled, health: newHealth(def.RetryPolicy), limits: newLimits(def.MCPConfig),
		changed: make(chan struct{}),
	}
}

// wake wakes goroutines in waitAcquire. s.mu must be held.
func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// serialize limits the server to one call at a time, because it has sent a request that may belong to several calls.
func (s *server) serialize(method string) {
	s.mu.Lock()
	l := s.limits
	s.mu.Unlock()
	l.gate.serialize()
	s.r.log.Warn("mcp_request_refused", slog.String("server", s.name), slog.String("method", method),
		slog.String("reason", "it does not say to which of several calls it belongs; calls of the server come one by one now"),
		slog.String("hint", `set "concurrency": 1 in its definition`))
}

// start starts the supervisor.
func (s *server) start(ctx context.Context) {
	s.mu.Lock()
	s.health = newHealth(s.def.RetryPolicy)
	s.lastError = "the handshake is not over yet"
	def := s.def
	s.mu.Unlock()
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // the supervisor outlives ctx
	done, first := make(chan struct{}), make(chan struct{})
	s.done, s.first = done, first
	go func() {
		defer close(done)
		s.supervise(ctx, def, sync.OnceFunc(func() { close(first) }))
	}()
}

// stopSupervisor stops the supervisor and waits for its end. The connection stays open.
func (s *server) stopSupervisor() {
	if s.stop != nil {
		s.stop()
		<-s.done
		s.stop = nil
	}
}

// supervise keeps the server connected until ctx ends. It calls tried after each attempt to connect.
func (s *server) supervise(ctx context.Context, def definition, tried func()) {
	defer tried()
	for again := false; ctx.Err() == nil; again = true {
		changed := make(chan struct{}, 1)
		opened, err := s.r.dial(ctx, def, dialOptions{retry: again, onAmbiguous: s.serialize, onChange: func(kind ChangeKind) {
			if kind == ToolsChanged {
				signal(changed)
				return
			}
			s.r.publish(Change{Kind: kind, Server: s.name})
		}})
		switch {
		case err == nil && ctx.Err() != nil:
			opened.close()
			return
		case err == nil:
			a := s.attach(opened, def.timeout())
			tried()
			s.watch(ctx, a, changed)
		case ctx.Err() == nil:
			s.recordFailure(fault.From(err).Message, errors.Is(err, oauth.ErrLogin))
			tried()
		}
		_ = pause.For(ctx, s.delay())
	}
}

// signal sends to a channel of capacity one, unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *server) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.delay(randomFraction())
}

// attach makes new calls use a new connection. Calls in flight finish on the old connection (S1-033).
func (s *server) attach(opened *session, timeout time.Duration) *activeSession {
	a := &activeSession{session: opened, timeout: timeout, idle: make(chan struct{})}
	s.mu.Lock()
	former := s.live
	s.live = a
	s.wake()
	s.metrics.HandshakeLatency, s.checked, s.lastError = opened.latency, s.r.now(), opened.missingText()
	s.updateHealth(func() { s.health.connected(len(opened.missing) == 0) })
	s.mu.Unlock()
	s.r.retire(s, former)
	s.r.publish(Change{Kind: ToolsChanged, Server: s.name})
	return a
}

// updateHealth calls change to change the health. It logs a changed status, and the first failure after a success. s.mu must be
// held.
func (s *server) updateHealth(change func()) {
	before, troubled := s.health.status, s.health.hasFailed()
	change()
	if after := s.health.status; after != before || s.health.hasFailed() && !troubled {
		s.r.log.Info("mcp_tool_status", slog.String("server", s.name), slog.String("from", string(before)),
			slog.String("to", string(after)), slog.String("error", s.lastError))
	}
}

// recordFailure records that the server could not be connected, or that the connection was lost. login is set if a person must
// log in.
func (s *server) recordFailure(reason string, login bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastError, s.checked = reason, s.r.now()
	s.updateHealth(func() {
		if login {
			s.health.loginRequired()
			return
		}
		s.health.failed(s.checked)
	})
}

// watch monitors a connection until the connection or ctx ends. It pings the server, and reads its tools again after changed
// receives a value.
func (s *server) watch(ctx context.Context, a *activeSession, changed <-chan struct{}) {
	timer := time.NewTimer(s.r.ping)
	defer timer.Stop()
	settled, stirred := time.NewTimer(0), (<-chan struct{})(nil)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.conn.done:
			reason := a.conn.link.closeReason()
			if reason == nil {
				reason = errors.New("the connection was closed by the server")
			}
			s.detach(a)
			s.recordFailure(a.conceal(reasonOf(reason)), errors.Is(reason, oauth.ErrLogin))
			return
		case <-settled.C:
			stirred = changed
		case <-stirred:
			s.relist(ctx, a)
			stirred = nil
			settled.Reset(relistDelay)
		case <-timer.C:
			if !s.check(ctx, a) {
				return
			}
			timer.Reset(s.untilNextCheck())
		}
	}
}

// untilNextCheck returns the time until the next ping, which is shorter after an unanswered ping.
func (s *server) untilNextCheck() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.missedPings > 0 {
		return min(firstDelay, s.r.ping)
	}
	return s.r.ping
}

// check pings the server, unless it has calls in progress: some servers handle one request at a time. It returns false if it has
// closed the connection because the server does not answer.
func (s *server) check(ctx context.Context, a *activeSession) bool {
	s.mu.Lock()
	busy := a.calls > 0
	s.mu.Unlock()
	if busy {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, s.r.bound)
	defer cancel()
	err := a.conn.ping(bounded)
	if ctx.Err() != nil {
		return true
	}
	if s.recordPing(err, a) {
		return true
	}
	s.detach(a)
	s.r.retire(s, a)
	return false
}

// recordPing records the outcome of a ping. It returns false if the connection must be closed.
func (s *server) recordPing(err error, a *activeSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = s.r.now()
	if err == nil {
		s.updateHealth(s.health.answered)
		return true
	}
	s.lastError = "it does not answer a ping: " + a.conceal(err.Error())
	givenUp := false
	s.updateHealth(func() { givenUp = s.health.unanswered(s.checked) })
	return !givenUp
}

// relist reads the tools again, after the server has reported a change.
func (s *server) relist(ctx context.Context, a *activeSession) {
	bounded, cancel := context.WithTimeout(ctx, s.r.bound)
	defer cancel()
	tools, traits, err := a.conn.tools(bounded, s.r.logRefused(ctx, s.name, a.conceal))
	if err != nil && ctx.Err() != nil {
		return
	}
	if err != nil {
		s.r.log.WarnContext(ctx, "mcp_tools_unreadable", slog.String("server", s.name), slog.String("error", a.conceal(err.Error())))
		return
	}
	s.mu.Lock()
	a.tools, a.traits = tools, traits
	s.mu.Unlock()
	s.r.publish(Change{Kind: ToolsChanged, Server: s.name})
}

// detach stops using a connection that has ended.
func (s *server) detach(a *activeSession) {
	s.mu.Lock()
	if s.live == a {
		s.live = nil
	}
	s.mu.Unlock()
	s.r.publish(Change{Kind: ToolsChanged, Server: s.name})
}

// acquire returns the connection for a call. The caller must call release. acquire returns TOOL_UNAVAILABLE if the server is not
// connected, ErrToolDisabled or ErrToolNotFound.
func (s *server) acquire() (*activeSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unavailable(); err != nil {
		return nil, err
	}
	s.live.calls++
	return s.live, nil
}

// unavailable returns the error if there is no connection for calls, nil otherwise. s.mu must be held.
func (s *server) unavailable() error {
	switch {
	case s.removed:
		return notFound(s.name)
	case !s.enabled:
		return disabled(s.name)
	case s.live == nil || isClosed(s.live.conn.done):
		return fault.New(fault.ToolUnavailable, "the MCP server %s is %s: %s", s.name, s.health.status, s.lastError).
			WithHint("orch mcp test %s", s.name)
	}
	return nil
}

// waitAcquire is acquire, but waits for the server to reconnect, no longer than the timeout of the server.
func (s *server) waitAcquire(ctx context.Context) (*activeSession, error) {
	s.mu.Lock()
	timer := time.NewTimer(s.def.timeout())
	s.mu.Unlock()
	defer timer.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		a, err := s.acquire()
		if err == nil || !fault.Has(err, fault.ToolUnavailable) {
			return a, err
		}
		if s.r.currentState() == stateClosed {
			return nil, closed()
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, err
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// release ends the use of a connection by a call.
func (s *server) release(a *activeSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.calls--; a.calls == 0 && a.retired {
		close(a.idle)
	}
}

// countCall counts a call. A result with isError counts as a failure.
func (s *server) countCall(begin time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.metrics
	m.Invocations++
	m.LastInvocation = begin
	if failed {
		m.Errors++
		return
	}
	m.Successes++
	s.latencies = append(s.latencies, s.r.now().Sub(begin))
	if len(s.latencies) > averaged {
		s.latencies = s.latencies[1:]
	}
	var sum time.Duration
	for _, l := range s.latencies {
		sum += l
	}
	m.AverageLatency = sum / time.Duration(len(s.latencies))
}

// snapshot returns a copy of the state.
func (s *server) snapshot() MCPTool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := MCPTool{
		Name: s.name, Config: s.def.masked(), Source: s.def.source, Status: s.health.status, Enabled: s.enabled,
		Breaker: s.health.breaker, Metrics: s.metrics, LastHealthCheck: s.checked, LastError: s.lastError,
	}
	if s.live != nil {
		t.Tools = len(s.live.tools)
	}
	if !s.enabled {
		t.Status, t.LastError = Offline, ""
	}
	return t
}

// connected reports whether there is a connection for the present definition.
func (s *server) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live != nil && s.enabled && s.live.digest == s.def.digest
}
