package bus

import (
	"bytes"
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
)

// OutcomeUnknown is the reason of the UNAVAILABLE of an append if neither an acknowledgement nor the log itself could be
// had in time: the commit may be in the log. A Call whose answer was lost returns it too.
const OutcomeUnknown = "OUTCOME_UNKNOWN"

const (
	// resolveWithin is how long it may take to resolve an append whose acknowledgement was lost.
	resolveWithin = 20 * time.Second
	// stuckAfter is the number of unanswered messages of one append after which the embedded server
	// counts as stuck; one is enough if its disk was full.
	stuckAfter = 4
)

// resolveLost resolves every append whose acknowledgement was lost, by reading the log.
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

// resolve reads the commit after the one that the append expects. It is the append itself, another one, or there is none:
// then it sends the same conditional message again, which can only take effect once. It
// returns false if the log cannot be read now.
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

// abandonedFault returns DISK_FULL for an append that is not in the log and cannot get there: the incarnation of the
// server that it was sent to has ended, and the disk has no space for another try.
func (s *Store) abandonedFault(p *pending) *fault.Error {
	if p.incarnation == s.conn.incarnation() {
		return nil
	}
	if r := s.space.measure(); r != nil {
		return r.err
	}
	return nil
}

// resend sends an append again that is not in the log.
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
