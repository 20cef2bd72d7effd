package rpc

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// overloadedWithin is how long a request is repeated that an overloaded node refuses.
	overloadedWithin = 2 * time.Minute
	// firstPause and longestPause bound the pauses between its attempts.
	firstPause, longestPause = 100 * time.Millisecond, 15 * time.Second
)

type onRefusalKey struct{}

// OnRefusal returns a context whose requests call f each time before a Remote repeats them, because an overloaded node has refused
// them.
func OnRefusal(ctx context.Context, f func(*fault.Error)) context.Context {
	return context.WithValue(ctx, onRefusalKey{}, f)
}

// untilAccepted makes a request with try, and repeats it while an overloaded node refuses it. That is harmless for every request,
// because nothing of a refused one was done. It returns the last error.
func untilAccepted(ctx context.Context, try func() error) error {
	began := time.Now()
	for refusals := 0; ; refusals++ {
		err := try()
		if !fault.IsOverloaded(err) || time.Since(began) > overloadedWithin {
			return err
		}
		if f, ok := ctx.Value(onRefusalKey{}).(func(*fault.Error)); ok {
			f(fault.From(err))
		}
		if pause.For(ctx, pauseAfter(fault.From(err), refusals)) != nil {
			return err
		}
	}
}

// pauseAfter returns how long to wait after a refusal. The clock of the node may differ.
func pauseAfter(refusal *fault.Error, refusals int) time.Duration {
	asked := min(max(time.Until(refusal.RetryAt), 0), longestPause)
	return asked + pause.Backoff(firstPause, longestPause, refusals)
}
