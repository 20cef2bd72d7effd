package dispatch

import "slices"

// shares counts the calls that run for each identity, and keeps one of them from having all workers for itself (ADR 0021). Agents count
// in the share of the identity that has registered them.
type shares struct {
	running map[string]int
	// urgent holds the lanes of critical calls that were kept from a last slot because another call of their identity runs.
	urgent map[string]map[Lane]bool
}

func newShares() shares { return shares{running: map[string]int{}, urgent: map[string]map[Lane]bool{}} }

// prefer orders two calls for the same slot: by priority, then the one whose identity has fewer calls running, then by age.
func (s shares) prefer(t, u *Queued) bool {
	if a, b := t.Lane.Share, u.Lane.Share; t.priority == u.priority && a != b && s.running[a] != s.running[b] {
		return s.running[a] < s.running[b]
	}
	return t.before(u)
}

// admit reports whether a worker may have a call now: its last free slots are kept from all but operators.
func (s shares) admit(t *Queued, w *Worker) bool {
	if w == nil || t.Lane.Operator {
		return true
	}
	free := w.slots - w.leases
	operators, urgent := w.reserved()
	if free > operators+urgent || operators == 0 {
		return true
	}
	if urgent > 0 && t.priority == critical {
		if free > operators && s.running[t.Lane.Share] == 0 {
			return true
		}
		s.addUrgent(t.Lane)
	}
	w.reserving = true
	return false
}

// manySlots is how many slots a worker has that keeps one of them for critical calls.
const manySlots = 4

// reserved returns how many free slots of the worker are for operators alone, and how many for them and for critical calls of
// agents of which no other call runs. One that has a single slot keeps none.
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

// addUrgent notes that a critical call of the lane waits until no other call of its identity runs.
func (s shares) addUrgent(l Lane) {
	if s.urgent[l.Share] == nil {
		s.urgent[l.Share] = map[Lane]bool{}
	}
	s.urgent[l.Share][l] = true
}

// release counts a call of an identity out, and returns the lanes that have waited for it to be the last one.
func (s shares) release(share string) (urgent map[Lane]bool) {
	if s.running[share]--; s.running[share] > 0 {
		return nil
	}
	urgent = s.urgent[share]
	delete(s.running, share)
	delete(s.urgent, share)
	return urgent
}

// ReservedBy returns a worker that keeps its last free slot from a queued call, "" when none does.
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
