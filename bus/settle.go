package bus

import (
	"bytes"
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
)

// OutcomeUnknown is the reason of the UNAVAILABLE that an append gets when neither an answer nor the
// log itself could be had in time: the commit may be in the log. A Call whose answer was lost has it too.
const OutcomeUnknown = "OUTCOME_UNKNOWN"

const (
	// settleWithin is how long an append whose acknowledgement was lost may take to be settled.
	settleWithin = 20 * time.Second
	// healAfter is the number of unanswered messages for one append after which the embedded server
	// counts as stuck; one, when its disk was full.
	healAfter = 4
)

// settleAll asks the log about every append whose acknowledgement was lost.
func (s *Store) settleAll(ctx context.Context) {
	s.app.mu.Lock()
	lost := s.app.lost
	s.app.lost = nil
	s.app.mu.Unlock()
	if len(lost) > 0 {
		s.resignIfOvertaken(ctx)
	}
	s.heal(ctx, lost)
	for i, p := range lost {
		if !s.settle(ctx, p) {
			s.app.mu.Lock()
			s.app.lost = append(s.app.lost, lost[i:]...)
			s.app.mu.Unlock()
			return
		}
	}
}

// settle reads what followed the commit that the append expects: itself, another one, or nothing,
// and then the same conditional message is sent once more, which can only take effect once. It
// returns false when the log cannot be read now.
func (s *Store) settle(ctx context.Context, p *pending) bool {
	if err := s.app.barrier.broken(); err != nil {
		s.app.finish(p, 0, err)
		return true
	}
	next, found, err := s.following(ctx, p.record.Task, p.record.After)
	late := time.Since(p.since) > settleWithin
	switch {
	case err != nil && !late:
		return false
	case err != nil || !found && (late || lost(s.cfg.Lease)):
		s.app.finish(p, 0, unknownOutcome(p))
	case found && bytes.Equal(next.Data, p.record.Data):
		s.app.conclude(verdict{p: p, seq: next.Seq})
	case found:
		s.app.conclude(verdict{p: p, err: conflict(p)})
	default:
		if full := s.gaveUp(p); full != nil {
			s.app.finish(p, 0, full)
		} else {
			s.app.resend(p)
		}
	}
	return true
}

// gaveUp returns DISK_FULL when an append that is not in the log can never get there: the server that
// it was sent to has ended, and the disk has no room for another try.
func (s *Store) gaveUp(p *pending) *fault.Error {
	if p.life == s.conn.life() {
		return nil
	}
	if r := s.space.look(); r != nil {
		return r.err
	}
	return nil
}

// resend sends an append that is not in the log once more, alone.
func (a *appender) resend(p *pending) {
	a.mu.Lock()
	id := a.launch(p)
	a.mu.Unlock()
	a.publish(id, p)
}

func unknownOutcome(p *pending) error {
	return fault.New(fault.Unavailable, "the log does not answer; it is unknown whether the commit of task %s is in it", p.record.Task).
		WithReason(OutcomeUnknown).WithField("task").WithHint("read the task again when the log answers")
}
