package orchestrator

import (
	"cmp"
	"slices"
	"time"

	"github.com/orch-dev/orch/work"
)

// This file holds what is known of workers, and how many calls each has.

// workerInfo is what the node knows of a worker.
type workerInfo struct {
	*workload

	queues []string
	// agent is who it is, nil for a worker.
	agent  *work.Agent
	seen   time.Time
	cancel []work.Ref
	// slots is how many calls it can have, 0 when it has not said so. refused is set when one of them was kept from a call.
	slots   int
	refused bool
	// sent is the number of the last batch with calls, given are those calls.
	sent  uint64
	given []work.Ref
}

// workload counts the calls that a worker has.
type workload struct {
	// leases are all of them, suspects those that have lost workers.
	leases, suspects int
	// calls are those of an agent; nil for a worker.
	calls map[work.Ref]bool
}

// hold notes a call of an agent.
func (l *workload) hold(call work.Ref) {
	if l.calls == nil {
		l.calls = map[work.Ref]bool{}
	}
	l.calls[call] = true
}

// load is that of a worker, be it known or not.
func (m *matcher) load(worker string) *workload {
	if m.loads[worker] == nil {
		m.loads[worker] = &workload{}
	}
	return m.loads[worker]
}

// forget drops a worker. What calls it has stay counted.
func (m *matcher) forget(worker string) {
	delete(m.workers, worker)
	m.settle(worker)
}

// settle drops the load of a worker that is not known and has no calls.
func (m *matcher) settle(worker string) {
	if m.workers[worker] == nil && m.loads[worker] != nil && m.loads[worker].leases == 0 {
		delete(m.loads, worker)
	}
}

// HeldCall is a call that an agent has, since when.
type HeldCall struct {
	work.Ref

	Since time.Time
	// Until is when its time is over; zero when that is not known.
	Until time.Time
}

// HeldCalls returns the calls that agents have, by actor, those of each the oldest first. UNAVAILABLE when the node is stopping.
func (o *Orchestrator) HeldCalls() (map[string][]HeldCall, error) {
	if err := o.serving(); err != nil {
		return nil, err
	}
	o.lock()
	defer o.unlock()
	held := map[string][]HeldCall{}
	for worker, load := range o.match.loads {
		for ref := range load.calls {
			held[worker] = append(held[worker], o.tasks[ref.Task].heldCall(ref))
		}
		slices.SortFunc(held[worker], func(a, b HeldCall) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
		})
	}
	return held, nil
}

// heldCall says since when an agent has a call, and until when at most.
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
