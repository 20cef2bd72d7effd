package orchestrator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// BeginWithin is how long a request may wait for its decision to begin. Then it is refused.
	BeginWithin = 10 * time.Second
	// maxLag is how long the log may take to acknowledge. While it takes longer, new tasks are refused.
	maxLag = 5 * time.Second
)

// ticket is the right of a request to begin. The request loses it when it has waited for BeginWithin, or when its caller gives up:
// then nothing of it is done.
//
// All methods of a nil ticket allow everything.
type ticket struct {
	since time.Time
	used  atomic.Bool
}

func newTicket() *ticket { return &ticket{since: time.Now()} }

// check returns UNAVAILABLE with reason OVERLOADED if it is too late to begin.
func (t *ticket) check() error {
	if t == nil {
		return nil
	}
	if waited := time.Since(t.since); waited > BeginWithin {
		return fault.NewOverloaded(time.Now(), "the node has too much to do: the request has waited %s", waited.Round(time.Second))
	}
	return nil
}

// begin uses the ticket, or returns why the request must not begin.
func (t *ticket) begin() error {
	if err := t.check(); err != nil {
		return err
	}
	if t != nil && !t.used.CompareAndSwap(false, true) {
		return fault.New(fault.Cancelled, "the caller has given up")
	}
	return nil
}

// giveUp returns the error of a caller whose context has ended. If the request has not begun, it no longer can.
func (t *ticket) giveUp(ctx context.Context) *fault.Error {
	err := fault.From(ctx.Err())
	switch begun := t != nil && !t.used.CompareAndSwap(false, true); {
	case t == nil, err.Code != fault.Timeout:
		return err
	case begun:
		return fault.Wrap(fault.Timeout, err, "the log has not acknowledged the request in time").WithReason(fault.OutcomeUnknown).
			WithHint("it may have been executed; check before you repeat it")
	default:
		return fault.NewOverloaded(time.Now(), "the node has too much to do: the request could not begin in time")
	}
}

// Lag returns for how long the oldest commit waits that the log has not acknowledged.
func (c *core) Lag() time.Duration { return c.log.lag() }

// checkLag returns UNAVAILABLE with reason OVERLOADED while the log is slow.
func (c *core) checkLag() error {
	if lag := c.log.lag(); lag > maxLag {
		return fault.NewOverloaded(time.Now(), "the node has too much to do: its log has not acknowledged for %s", lag.Round(time.Second))
	}
	return nil
}

// mayBegin returns UNAVAILABLE with reason OVERLOADED if a request must not create a task now.
func (sm *submitter) mayBegin(t *ticket) error {
	if err := t.check(); err != nil || t == nil {
		return err
	}
	return sm.checkLag()
}
