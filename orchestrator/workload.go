package orchestrator

import (
	"cmp"
	"slices"
	"time"

	"github.com/orch-dev/orch/work"
)

// HeldCall is a call that an agent holds.
type HeldCall struct {
	work.Ref

	Since time.Time
	// Until is the end of its time limit; zero if that is not known.
	Until time.Time
}

// HeldCalls returns the calls that agents hold, by actor, the oldest first. It returns UNAVAILABLE while the node is stopping.
func (rd *reader) HeldCalls() (map[string][]HeldCall, error) {
	if err := rd.serving(); err != nil {
		return nil, err
	}
	rd.lock()
	defer rd.unlock()
	held := map[string][]HeldCall{}
	for worker, calls := range rd.engine.queue.dispatcher.CallsByAgent() {
		for _, ref := range calls {
			held[worker] = append(held[worker], rd.engine.tasks[ref.Task].heldCall(ref))
		}
		slices.SortFunc(held[worker], func(a, b HeldCall) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
		})
	}
	return held, nil
}

// heldCall returns a call with the times between which an agent holds it.
func (e *entry) heldCall(ref work.Ref) HeldCall {
	held := HeldCall{Ref: ref}
	if e == nil || e.task == nil || e.task.Steps[ref.Step] == nil {
		return held
	}
	s := e.task.Steps[ref.Step]
	held.Since = s.CalledAt
	if s.Timeout > 0 && !s.CalledAt.IsZero() {
		held.Until = s.CalledAt.Add(s.Timeout)
	}
	return held
}
