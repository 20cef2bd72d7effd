// Package pause waits: for a time that the end of a context cuts short, and for longer after more failures.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits, and returns the error of ctx when that has ended first.
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

// Backoff returns how long to wait after a number of failures: first, doubled with each failure up to longest. Half of it is
// chance, so that those who wait for the same thing do not return in step.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	d := first
	for ; failures > 0 && d < longest; failures-- {
		d *= 2
	}
	half := min(d, longest) / 2
	return half + rand.N(half+1) //nolint:gosec // the spread of pauses is no secret
}
