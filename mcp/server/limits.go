package server

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/orch-dev/orch/fault"
)

// meter counts the requests of each identity. The requests of a registered agent count for its registrar.
type meter struct {
	// share returns the identity that the requests of who count against.
	share func(who string) string

	mu   sync.Mutex
	byID map[string]*usage
	// next is the number of identities at which the next prune happens.
	next int
}

// usage is the current usage of an identity; held is the bytes of its requests.
type usage struct {
	limiter  *rate.Limiter
	inFlight int
	held     int64
}

// acquireBytes adds the bytes of a request, MaxBody if the size is unknown. It returns false if the identity exceeds its limit.
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

// acquire adds a request. It returns false if the identity exceeds its limits.
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

// pruneFrom is the number of identities up to which nothing is pruned.
const pruneFrom = 1000

// prune removes identities without requests and with a full rate limiter. It does so only when the number of identities has
// doubled since the last time. m.mu must be held.
func (m *meter) prune() {
	if len(m.byID) < max(m.next, pruneFrom) {
		return
	}
	maps.DeleteFunc(m.byID, func(_ string, g *usage) bool { return g.inFlight == 0 && g.held == 0 && g.limiter.Tokens() >= MaxBurst })
	m.next = 2 * len(m.byID)
}

// Admit counts a request that does not use MCP against the limits of an identity. It returns RATE_LIMITED if they are exceeded.
// size is the number of bytes of the body, -1 if unknown. The caller must call leave when the request ends.
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
	s.cfg.Hooks.Refused(who, "", nil, why)
	return why
}
