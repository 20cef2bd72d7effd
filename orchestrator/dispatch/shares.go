package dispatch

import (
	"slices"

	"github.com/orch-dev/orch/work"
)

// shares counts the running calls of each identity, so that one identity cannot occupy all workers (ADR 0021). A share is the
// part of the workers that an identity uses. The calls of an agent belong to the share of the identity that registered the
// agent.
type shares struct {
	running map[string]int
	// urgent holds, by share, the lanes of critical calls that did not get a reserved slot, because another call of the share
	// runs.
	urgent map[string]map[Lane]bool
}

func newShares() shares { return shares{running: map[string]int{}, urgent: map[string]map[Lane]bool{}} }

// prefer reports whether t comes before u: by priority, then by fewer running calls of the share, then by age.
func (s shares) prefer(t, u *Queued) bool {
	if a, b := t.Lane.Share, u.Lane.Share; t.priority == u.priority && a != b && s.running[a] != s.running[b] {
		return s.running[a] < s.running[b]
	}
	return t.before(u)
}

// admit reports whether a worker may take a call now, considering the reserved slots (see reserved).
func (s shares) admit(t *Queued, w *Worker) bool {
	if w == nil || t.Lane.Operator {
		return true
	}
	free := w.slots - w.leases
	operators, urgent := w.reserved()
	if free > operators+urgent || operators == 0 {
		return true
	}
	if urgent > 0 && t.priority == work.Critical {
		if free > operators && s.running[t.Lane.Share] == 0 {
			return true
		}
		s.addUrgent(t.Lane.withoutKey())
	}
	w.reserving = true
	return false
}

// manySlots is the minimum number of slots with which a worker reserves one for critical calls.
const manySlots = 4

// reserved returns how many of its last free slots the worker reserves: operators for operators only, and urgent more for
// operators and for critical calls of shares without a running call. A worker with a single slot reserves none.
func (w *Worker) reserved() (operators, urgent int) {
	switch {
	case w.slots >= manySlots:
		return 1, 1
	case w.slots > 1:
		return 1, 0
	default:
		return 0, 0
	}
}

// addUrgent records that a critical call of the lane waits until no other call of its share runs.
func (s shares) addUrgent(l Lane) {
	if s.urgent[l.Share] == nil {
		s.urgent[l.Share] = map[Lane]bool{}
	}
	s.urgent[l.Share][l] = true
}

// release subtracts a running call of a share. If it was the last one, release returns the lanes that waited for that.
func (s shares) release(share string) (urgent map[Lane]bool) {
	if s.running[share]--; s.running[share] > 0 {
		return nil
	}
	urgent = s.urgent[share]
	delete(s.running, share)
	delete(s.urgent, share)
	return urgent
}

// ReservedBy returns a worker with a free slot that a queued call must not take because the slot is reserved; "" if there is
// none.
func (d *Dispatcher) ReservedBy(t *Queued) string {
	if t == nil {
		return ""
	}
	for name, w := range d.workers {
		if w.slots > w.leases && slices.Contains(w.Queues, t.Lane.Queue) && !d.shares.admit(t, w) && !d.Offline(w) {
			return name
		}
	}
	return ""
}
