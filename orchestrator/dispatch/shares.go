package dispatch

import (
	"slices"

	"github.com/orch-dev/orch/work"
)

// shares are the shares of the families, so that one identity cannot occupy all workers (ADR 0021).
type shares map[shareKey]*share

// shareKey identifies a share.
type shareKey struct {
	identity string
	// models is set for the calls that ask models. They have shares of their own (ADR 0056): who has many of them under way has no fewer
	// of other calls.
	models bool
}

// share is the part of the workers that an identity uses. The calls of an agent belong to the share of the identity that registered
// the agent. A share exists as long as there are families of it.
type share struct {
	families int
	// running counts the running calls.
	running int
	// urgent holds the families with critical calls that did not get a reserved slot, because another call of the share runs.
	urgent map[*family]bool
}

// join returns the share of a new family. It is made if it is missing.
func (s shares) join(l *Lane) *share {
	key := l.shareKey()
	if s[key] == nil {
		s[key] = &share{}
	}
	s[key].families++
	return s[key]
}

// shareKey returns the share of the calls of a lane.
func (l *Lane) shareKey() shareKey { return shareKey{l.Share, l.Queue == work.ModelsQueue} }

// leave removes a family from its share.
func (s shares) leave(f *family) {
	delete(f.share.urgent, f)
	if f.share.families--; f.share.families == 0 {
		delete(s, f.lane.shareKey())
	}
}

// prefer reports whether t comes before u: by priority, then by fewer running calls of the share, then by age.
func prefer(t, u *Queued) bool {
	if a, b := t.lane.family.share, u.lane.family.share; t.priority == u.priority && a.running != b.running {
		return a.running < b.running
	}
	return t.before(u)
}

// admit reports whether a worker may take a call now, considering the reserved slots (see reserved).
func (w *Worker) admit(t *Queued) bool {
	if w == nil || t.lane.family.lane.Operator {
		return true
	}
	free := w.slots - w.leases
	operators, urgent := w.reserved()
	if free > operators+urgent || operators == 0 {
		return true
	}
	if urgent > 0 && t.priority == work.Critical {
		if free > operators && t.lane.family.share.running == 0 {
			return true
		}
		t.lane.family.addUrgent()
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

// addUrgent records that a critical call of the family waits until no other call of its share runs.
func (f *family) addUrgent() {
	if f.share.urgent == nil {
		f.share.urgent = map[*family]bool{}
	}
	f.share.urgent[f] = true
}

// ReservedBy returns a worker with a free slot that a queued call must not take because the slot is reserved; "" if there is
// none.
func (d *Dispatcher) ReservedBy(t *Queued) string {
	if t == nil {
		return ""
	}
	for name, w := range d.workers {
		if w.slots > w.leases && slices.Contains(w.Queues, t.lane.family.lane.Queue) && !w.admit(t) && !d.Offline(w) {
			return name
		}
	}
	return ""
}
