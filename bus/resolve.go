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
	// resolveWithin is how long an append whose acknowledgement was lost may take to be settled.
	resolveWithin = 20 * time.Second
	// stuckAfter is the number of unanswered messages for one append after which the embedded server
	// counts as stuck; one, when its disk was full.
	stuckAfter = 4
)

// resolveLost asks the log about every append whose acknowledgement was lost.
func (s *Store) resolveLost(ctx context.Context) {
	s.appender.mu.Lock()
	lost := s.appender.lost
	s.appender.lost = nil
	s.appender.mu.Unlock()
	if len(lost) > 0 {
		s.resignIfOvertaken(ctx)
	}
	s.restartIfStuck(ctx, lost)
	for i, p := range lost {
		if !s.resolve(ctx, p) {
			s.appender.mu.Lock()
			s.appender.lost = append(s.appender.lost, lost[i:]...)
			s.appender.mu.Unlock()
			return
		}
	}
}

// resolve reads what followed the commit that the append expects: itself, another one, or nothing,
// and then the same conditional message is sent once more, which can only take effect once. It
// returns false when the log cannot be read now.
func (s *Store) resolve(ctx context.Context, p *pending) bool {
	if err := s.appender.barrier.err(); err != nil {
		s.appender.finish(p, 0, err)
		return true
	}
	next, found, err := s.nextCommit(ctx, p.record.Task, p.record.After)
	late := time.Since(p.since) > resolveWithin
	switch {
	case err != nil && !late:
		return false
	case err != nil || !found && (late || leaseLost(s.cfg.Lease)):
		s.appender.finish(p, 0, unknownOutcome(p))
	case found && bytes.Equal(next.Data, p.record.Data):
		s.appender.enqueueVerdict(verdict{p: p, seq: next.Seq})
	case found:
		s.appender.enqueueVerdict(verdict{p: p, err: conflict(p)})
	default:
		if full := s.abandonedFault(p); full != nil {
			s.appender.finish(p, 0, full)
		} else {
			s.appender.resend(p)
		}
	}
	return true
}

// abandonedFault returns DISK_FULL when an append that is not in the log can never get there: the server that
// it was sent to has ended, and the disk has no room for another try.
func (s *Store) abandonedFault(p *pending) *fault.Error {
	if p.incarnation == s.conn.incarnation() {
		return nil
	}
	if r := s.space.measure(); r != nil {
		return r.err
	}
	return nil
}

// resend sends an append that is not in the log once more, alone.
func (a *appender) resend(p *pending) {
	a.mu.Lock()
	id := a.track(p)
	a.mu.Unlock()
	a.publish(id, p)
}

func unknownOutcome(p *pending) error {
	return fault.New(fault.Unavailable, "the log does not answer; it is unknown whether the commit of task %s is in it", p.record.Task).
		WithReason(OutcomeUnknown).WithField("task").WithHint("read the task again when the log answers")
}
