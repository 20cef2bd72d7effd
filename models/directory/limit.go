package directory

import (
	"context"

	"github.com/orch-dev/orch/models"
)

// limiter is a provider that gets a limited number of requests at the same time. Who dispatches requests counts them as well, by the
// provider that is asked first; this limit also holds for those that come from another provider because of a fallback.
type limiter struct {
	next  models.Provider
	slots chan struct{}
}

// limited returns p with a limit; p itself for 0.
func limited(p models.Provider, slots int) models.Provider {
	if slots <= 0 {
		return p
	}
	return &limiter{p, make(chan struct{}, slots)}
}

// Stream implements models.Provider. It waits until the provider gets less than its limit of requests, or ctx ends.
func (l *limiter) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return models.Answer{}, ctx.Err()
	}
	defer func() { <-l.slots }()
	return l.next.Stream(ctx, r, hear)
}
