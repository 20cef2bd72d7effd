// Package pause waits for a time or until a context ends, and computes backoff delays.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. It returns the error of ctx if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Backoff returns how long to wait after a number of failures: first, doubled for each failure, at most longest. Half
// of the delay is random, so that concurrent waiters do not retry at the same time.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	d := first
	for ; failures > 0 && d < longest; failures-- {
		d *= 2
	}
	half := min(d, longest) / 2
	return half + rand.N(half+1) //nolint:gosec // the delay may be predictable
}
