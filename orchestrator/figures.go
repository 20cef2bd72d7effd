package orchestrator

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Refusing returns why no task is accepted; nil if tasks are. The log may have further reasons.
func (op *operations) Refusing() *fault.Error {
	if err := op.serving(); err != nil {
		return fault.From(err)
	}
	op.lock()
	defer op.unlock()
	return op.loss
}

// Figures count what an orchestrator holds, for monitoring.
type Figures struct {
	// Queue counts the open tasks. Finished counts the others.
	Queue    api.QueueStats
	Finished int
	// Waits are the calls that wait for workers, by queue, and Running those that workers have.
	Waits   map[string]dispatch.Wait
	Running int
	// Online and Silent count the workers.
	Online, Silent int
	// Paused is set if the whole node is paused.
	Paused bool
	// Approvals counts the tasks with a pending approval, Questions those with an open question. OldestApproval is when the first of
	// these approvals was requested; zero for none. For a task that nobody has read since the start it is when the task has changed last.
	Approvals, Questions int
	OldestApproval       time.Time
	// Removed counts the tasks that retention has removed since the start. RemovalFails is set if its last run has failed.
	Removed      int
	RemovalFails bool
}

// Figures returns what the orchestrator holds.
func (op *operations) Figures() Figures {
	f := Figures{Removed: int(op.removed.Load()), RemovalFails: op.removalFails.Load()}
	_, f.Queue = op.cfg.Lists.Queue(api.QueueRequest{}, nil, 1, op.now())
	finished := op.cfg.Lists.Finished()
	op.lock()
	defer op.unlock()
	f.Finished = max(finished, len(op.engine.listed.lines)) // the index may lack some
	d := op.engine.queue.dispatcher
	f.Waits, f.Running = d.Waits(), d.Running()
	for _, w := range d.Workers() {
		switch {
		case slices.Equal(w.Queues, []string{work.ModelsQueue}): // a part of the worker of the node
		case d.Offline(w):
			f.Silent++
		default:
			f.Online++
		}
	}
	for _, p := range op.pauses.list {
		f.Paused = f.Paused || p.Kind == "node"
	}
	op.engine.people.count(&f)
	return f
}

// firstPending returns when the first pending approval of a task was requested.
func firstPending(t *statemachine.Task) (since time.Time, pending bool) {
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalPending && (!pending || a.RequestedAt.Before(since)) {
			since, pending = a.RequestedAt, true
		}
	}
	return since, pending
}
