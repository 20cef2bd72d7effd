package registry

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// DefaultConcurrency is the default number of concurrent calls of a server.
const DefaultConcurrency = 32

// limits are the concurrency and rate limits of a definition.
type limits struct {
	gate *semaphore
	// rate is nil if there is no limit.
	rate *rate.Limiter
}

// newLimits returns the limits of a definition. A burst may use a tenth of the calls of a minute.
func newLimits(c MCPConfig) *limits {
	l := &limits{gate: &semaphore{limit: cmp.Or(c.Concurrency, DefaultConcurrency)}}
	if c.RateLimit > 0 {
		const burst = 10
		l.rate = rate.NewLimiter(rate.Limit(float64(c.RateLimit)/time.Minute.Seconds()), max(1, c.RateLimit/burst))
	}
	return l
}

// waitRate waits until the rate limit permits another call. It returns RATE_LIMITED at once if that takes longer than within.
func (l *limits) waitRate(ctx context.Context, server string, within time.Duration) error {
	if l.rate == nil {
		return nil
	}
	reservation := l.rate.Reserve()
	delay := reservation.Delay()
	if delay > within {
		reservation.Cancel()
		return fault.New(fault.RateLimited, "the MCP server %s may be called again in %s", server, delay.Round(time.Second)).
			WithHint("rateLimit of its definition")
	}
	if pause.For(ctx, delay) != nil {
		reservation.Cancel()
		return fault.From(ctx.Err())
	}
	return nil
}

// semaphore is a counting semaphore that serves waiters in order.
type semaphore struct {
	mu      sync.Mutex
	limit   int
	held    int
	waiting []chan struct{}
}

// acquire waits for a slot. The caller must release it.
func (g *semaphore) acquire(ctx context.Context) error {
	g.mu.Lock()
	if g.held < g.limit && len(g.waiting) == 0 {
		g.held++
		g.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	g.waiting = append(g.waiting, granted)
	g.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, granted); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // wake has granted a slot at the same time
		g.held--
		g.wake()
	}
	return context.Cause(ctx)
}

// release frees a slot.
func (g *semaphore) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held--
	g.wake()
}

// wake grants free slots to waiters. g.mu must be held.
func (g *semaphore) wake() {
	for g.held < g.limit && len(g.waiting) > 0 {
		g.held++
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
	}
}

// serialize reduces the number of slots to one.
func (g *semaphore) serialize() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = 1
}
