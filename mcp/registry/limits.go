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

// DefaultConcurrency is how many calls of a server may work at once where its definition says nothing.
const DefaultConcurrency = 32

// limits are what a definition allows at once and in a minute.
type limits struct {
	gate *semaphore
	// rate is nil where there is no limit.
	rate *rate.Limiter
}

// newLimits returns the limits of a definition. Of the calls of a minute a tenth may come at once.
func newLimits(c MCPConfig) *limits {
	l := &limits{gate: &semaphore{limit: cmp.Or(c.Concurrency, DefaultConcurrency)}}
	if c.RateLimit > 0 {
		const burst = 10
		l.rate = rate.NewLimiter(rate.Limit(float64(c.RateLimit)/time.Minute.Seconds()), max(1, c.RateLimit/burst))
	}
	return l
}

// waitRate waits until the rate allows another call, at most for the given time. RATE_LIMITED.
func (l *limits) waitRate(ctx context.Context, server string, within time.Duration) error {
	if l.rate == nil {
		return nil
	}
	turn := l.rate.Reserve()
	delay := turn.Delay()
	if delay > within {
		turn.Cancel()
		return fault.New(fault.RateLimited, "the MCP server %s may be called again in %s", server, delay.Round(time.Second)).
			WithHint("rateLimit of its definition")
	}
	if pause.For(ctx, delay) != nil {
		turn.Cancel()
		return fault.From(ctx.Err())
	}
	return nil
}

// semaphore lets a number of calls through at once, in the order in which they come.
type semaphore struct {
	mu      sync.Mutex
	limit   int
	inside  int
	waiting []chan struct{}
}

// acquire waits for a place, which leave gives back.
func (g *semaphore) acquire(ctx context.Context) error {
	g.mu.Lock()
	if g.inside < g.limit && len(g.waiting) == 0 {
		g.inside++
		g.mu.Unlock()
		return nil
	}
	called := make(chan struct{})
	g.waiting = append(g.waiting, called)
	g.mu.Unlock()
	select {
	case <-called:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, called); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // it was called at the same time
		g.inside--
		g.wake()
	}
	return context.Cause(ctx)
}

// release gives a place back.
func (g *semaphore) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.wake()
}

// wake lets those in who wait for a place that is free. g.mu is held.
func (g *semaphore) wake() {
	for g.inside < g.limit && len(g.waiting) > 0 {
		g.inside++
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
	}
}

// serialize lets one call through at once from now on.
func (g *semaphore) serialize() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = 1
}
