package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// sleeper is the index entry of an open task that was not loaded after a restart. The task waits for a timer or for people. Its
// history is read when the timer fires or when a request needs the task.
type sleeper struct {
	Line api.Summary `json:"line"`
	// Share is the Share of events.Submitted.
	Share string `json:"share,omitempty"`
	// Wake is when the next timer is due, nil for none.
	Wake *time.Time `json:"wake,omitempty"`
	// Approvals is set if the task has approvals, Undecided if an approval is pending, Unanswered if the task has an open
	// question.
	Approvals  bool `json:"approvals,omitempty"`
	Undecided  bool `json:"undecided,omitempty"`
	Unanswered bool `json:"unanswered,omitempty"`
}

// sleeperOf returns the index entry of a dormant task (see dormant). It returns nil for any other task,
// and for a task that has changed after position seq. mu must be held.
func (en *engine) sleeperOf(id events.TaskID, seq uint64) *sleeper {
	if a := en.asleep[id]; a != nil {
		return a
	}
	e := en.tasks[id]
	if e == nil || e.seq > seq || !e.dormant() {
		return nil
	}
	return &sleeper{
		Line: lineOfTask(e.task), Share: e.task.Submitted.Share, Wake: en.timers.next(id),
		Approvals: len(e.task.Approvals) > 0, Undecided: e.task.HasPendingApproval(), Unanswered: e.task.HasOpenQuestion(),
	}
}

// share returns the identity that owns the share of the task, as in shareOf.
func (a *sleeper) share() string { return cmp.Or(a.Share, a.Line.Requestor) }

// dormant reports whether only a timer or a person can move the task, and no other task needs it in memory.
func (e *entry) dormant() bool {
	t := e.task
	switch {
	case e.busy || len(e.turns) > 0 || t == nil || !e.open || e.unsynced || e.fetching || e.plan.Unusable != nil:
		return false
	case e.calls.Queued.Len() > 0 || e.calls.Leases.Len() > 0 || len(e.fetched) > 0 || e.key != "":
		return false
	case t.State == statemachine.Blocked || t.State.Terminal() || t.Cancelling || t.Ending || len(t.Unmet) > 0:
		return false
	case t.Submitted.Parent != nil || t.Submitted.Concurrency != nil:
		return false
	}
	for _, s := range t.Live() {
		if !dormantStep(s) {
			return false
		}
	}
	return true
}

// dormantStep reports whether a step has ended, or waits for a timer or for people.
func dormantStep(s *statemachine.Step) bool {
	switch s.State {
	case statemachine.StepRunning:
		return s.Child == "" && !s.Executing()
	case statemachine.StepParked:
		return s.For == nil
	default:
		return s.State.Terminal()
	}
}

// removeSleeper removes the sleeper of a task, if there is one, and copies its data to the entry. The caller then loads the
// entry. mu must be held.
func (en *engine) removeSleeper(e *entry) {
	a := en.asleep[e.id]
	if a == nil {
		return
	}
	delete(en.asleep, e.id)
	e.open, e.counted, e.share = true, true, a.share()
}

// loadSleepers loads those of the given tasks that sleep, many concurrently, and waits for them.
func (rd *reader) loadSleepers(ctx context.Context, ids []events.TaskID) {
	read := make(chan struct{}, len(ids))
	reading := 0
	for part := range slices.Chunk(ids, indexChunk) {
		rd.lock()
		for _, id := range part {
			if rd.engine.asleep[id] != nil {
				reading++
				rd.engine.withEntry(id, func(*entry, error) { read <- struct{}{} })
			}
		}
		rd.unlock()
	}
	for ; reading > 0; reading-- {
		select {
		case <-read:
		case <-ctx.Done():
			return
		}
	}
}
