package orchestrator

import (
	"slices"
)

// shares counts the calls that run for each identity, and keeps one of them from having all workers for itself (ADR 0021). Agents count
// in the share of the identity that has registered them, see Config.ShareOf.
type shares struct {
	running map[string]int
	// urgent holds the lanes of critical calls that were kept from a last slot because another call of their identity runs.
	urgent map[string]map[lane]bool
}

func newShares() shares { return shares{running: map[string]int{}, urgent: map[string]map[lane]bool{}} }

// prefer orders two calls for the same slot: by priority, then the one whose identity has fewer calls running, then by age.
func (s shares) prefer(t, u *queuedCall) bool {
	if a, b := t.lane.share, u.lane.share; t.priority == u.priority && a != b && s.running[a] != s.running[b] {
		return s.running[a] < s.running[b]
	}
	return t.before(u)
}

// admit reports whether a worker may have a call now: its last free slots are kept from all but operators.
func (s shares) admit(t *queuedCall, w *workerInfo) bool {
	if w == nil || t.lane.operator {
		return true
	}
	free := w.slots - w.leases
	operators, urgent := w.kept()
	if free > operators+urgent || operators == 0 {
		return true
	}
	if urgent > 0 && t.priority == priorityOf("critical") {
		if free > operators && s.running[t.lane.share] == 0 {
			return true
		}
		s.wait(t.lane)
	}
	w.refused = true
	return false
}

// manySlots is how many slots a worker has that keeps one of them for critical calls.
const manySlots = 4

// kept returns how many free slots of the worker are for operators alone, and how many for them and for critical calls of
// agents of which no other call runs. One that has a single slot keeps none.
func (w *workerInfo) kept() (operators, urgent int) {
	switch {
	case w.slots >= manySlots:
		return 1, 1
	case w.slots > 1:
		return 1, 0
	default:
		return 0, 0
	}
}

// wait notes that a critical call of the lane waits until no other call of its identity runs.
func (s shares) wait(l lane) {
	if s.urgent[l.share] == nil {
		s.urgent[l.share] = map[lane]bool{}
	}
	s.urgent[l.share][l] = true
}

// give counts a call of an identity out, and returns the lanes that have waited for it to be the last one.
func (s shares) give(share string) (urgent map[lane]bool) {
	if s.running[share]--; s.running[share] > 0 {
		return nil
	}
	urgent = s.urgent[share]
	delete(s.running, share)
	delete(s.urgent, share)
	return urgent
}

// keeper returns a worker that keeps its last free slot from a queued call, "" when none does. The lock is held.
func (o *Orchestrator) keeper(t *queuedCall) string {
	if t == nil {
		return ""
	}
	for name, w := range o.match.workers {
		if w.slots > w.leases && slices.Contains(w.queues, t.lane.queue) && !o.match.shares.admit(t, w) && !o.mute(w) {
			return name
		}
	}
	return ""
}
