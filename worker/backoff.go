package worker

import (
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// backoff returns the pause before the next request to the owner after n failures. It doubles from 20 ms to 2 s, and half of it
// is random, so that the workers of a restarted owner do not reconnect in step.
func backoff(n int) time.Duration {
	return pause.Backoff(20*time.Millisecond, 2*time.Second, n)
}

// transient reports whether err is transient, so that a later try may succeed.
func transient(err error) bool {
	for _, code := range []fault.Code{fault.Unavailable, fault.Timeout, fault.NetworkError, fault.RateLimited, fault.DiskFull} {
		if fault.Has(err, code) {
			return true
		}
	}
	return false
}
