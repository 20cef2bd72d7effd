package server

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/orch-dev/orch/fault"
)

// meter counts the requests of each identity, with those of the agents that it has registered.
type meter struct {
	// share returns the identity under which another one counts.
	share func(who string) string

	mu   sync.Mutex
	byID map[string]*usage
	// next is how many identities there may be before they are looked at.
	next int
}

type usage struct {
	limiter  *rate.Limiter
	inFlight int
	held     int64
}

// acquireBytes counts the bytes of a request in, those of unknown length as the most; false when the identity has too many.
func (m *meter) acquireBytes(who string, size int64) (release func(), ok bool) {
	if size < 0 || size > MaxBody {
		size = MaxBody
	}
	who = m.share(who)
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.byID[who]
	if g == nil || g.held+size > MaxHeld {
		return nil, false
	}
	g.held += size
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		g.held -= size
	}, true
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}

// acquire counts a request in; false when the identity has too many.
func (m *meter) acquire(who string) (release func(), ok bool) {
	who = m.share(who)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil {
		m.byID = map[string]*usage{}
	}
	g := m.byID[who]
	if g == nil {
		m.prune()
		g = &usage{limiter: rate.NewLimiter(MaxRate, MaxBurst)}
		m.byID[who] = g
	}
	if g.inFlight >= MaxInFlight || !g.limiter.Allow() {
		return nil, false
	}
	g.inFlight++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		g.inFlight--
	}, true
}

// pruneFrom is how many identities are kept without a look at whether they are still there.
const pruneFrom = 1000

// prune drops the identities that have sent nothing for so long that nothing is known of them. It looks at them whenever
// there are twice as many as after the last look. The lock is held.
func (m *meter) prune() {
	if len(m.byID) < max(m.next, pruneFrom) {
		return
	}
	maps.DeleteFunc(m.byID, func(_ string, g *usage) bool { return g.inFlight == 0 && g.held == 0 && g.limiter.Tokens() >= MaxBurst })
	m.next = 2 * len(m.byID)
}

// Admit counts in a request of an identity on another path than those of MCP, as ToolCaller.Admit does.
func (s *Server) Admit(who string, size int64) (leave func(), err error) {
	exit, ok := s.meter.acquire(who)
	if !ok {
		return nil, s.tooMany(who)
	}
	release, ok := s.meter.acquireBytes(who, size)
	if !ok {
		exit()
		return nil, s.tooMany(who)
	}
	return func() { release(); exit() }, nil
}

func (s *Server) tooMany(who string) error {
	why := fault.New(fault.RateLimited, "%s sends too many requests", who).WithRetryAt(s.cfg.Now().Add(time.Second)).
		WithHint("send fewer at the same time")
	s.cfg.Refused(who, "", nil, why)
	return why
}
