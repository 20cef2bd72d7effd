package bus

import (
	"bytes"
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
)

// OutcomeUnknown is the reason of an UNAVAILABLE error after which the commit may or may not be in the log: the acknowledgement
// of the append was lost, and reading the log did not settle its outcome in time. A request whose reply was lost also fails with
// this reason.
const OutcomeUnknown = fault.OutcomeUnknown

const (
	// resolveWithin is how long it may take to resolve an append whose acknowledgement was lost.
	resolveWithin = 20 * time.Second
	// The embedded server counts as stuck after stuckAfter unacknowledged messages of the same append. One message is enough if
	// the disk was full.
	stuckAfter = 4
)

// resolveLost resolves every append with a lost acknowledgement, by reading the log.
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

// resolve reads the commit after the position that the append expects. If that is the commit of the append, the append has
// succeeded; if it is another commit, there is a conflict. If there is none, resolve sends the same conditional message
// again, which can only take effect once. It returns false if the log cannot be read now.
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
		s.appender.enqueueVerdicts(verdict{p: p, seq: next.Seq})
	case found, p.stale && s.conn.target.server != nil: // in a cluster, the log that was read may be behind the one that refused
		s.appender.enqueueVerdicts(verdict{p: p, err: conflict(p)})
	default:
		if full := s.abandonedFault(p); full != nil {
			s.appender.finish(p, 0, full)
		} else {
			s.appender.transmit(p)
		}
	}
	return true
}

// abandonedFault returns DISK_FULL if the append must be given up: there is no space for it, and the server has been restarted
// since the append was sent, so that its message is no longer in flight. Otherwise it returns nil. The append must not be in
// the log.
func (s *Store) abandonedFault(p *pending) *fault.Error {
	if p.incarnation == s.conn.incarnation() {
		return nil
	}
	if r := s.space.measure(); r != nil {
		return r.err
	}
	return nil
}

func unknownOutcome(p *pending) error {
	return fault.New(fault.Unavailable, "the log does not answer; it is unknown whether the commit of task %s is in it", p.record.Task).
		WithReason(OutcomeUnknown).WithField("task").WithHint("read the task again when the log answers")
}
