package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/fault"
)

// backoff returns the pause before the owner is asked again after n failures: it doubles from 20 ms to
// 2 s, and half of it is random, so that the workers of a restarted owner do not return in step.
func backoff(n int) time.Duration {
	const first, longest, steps = 20 * time.Millisecond, 2 * time.Second, 8
	half := min(first<<min(n, steps), longest) / 2
	return half + rand.N(half) //nolint:gosec // the spread of pauses is no secret
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// passing reports whether a later try may succeed where this one failed with err.
func passing(err error) bool {
	for _, code := range []fault.Code{fault.Unavailable, fault.Timeout, fault.NetworkError, fault.RateLimited, fault.DiskFull} {
		if fault.Has(err, code) {
			return true
		}
	}
	return false
}
