package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// Turn is one decision about one task. The events that it emits are applied at once, and appended as one commit.
type Turn struct {
	Reading

	// Actor is the identity that makes the decision, such as user:ada. Cause is the id of the request that caused the turn, if
	// any.
	Actor, Cause string
	// Events are the events of the commit. Calls are the calls that they end, Paid is what requests to models have cost.
	Events []events.Event
	Calls  []stats.Call
	Paid   []costs.Cost
	// Blobs are the large values that must be stored before the commit.
	Blobs []json.RawMessage
	// Late is set if the turn took so long that its rest is left to the next turn.
	Late bool
	// local is set if the turn can only move steps that its own events touch, and steps that need them.
	local bool
	// MayRun is until when the failed call may still run; zero if it has certainly ended.
	MayRun time.Time

	// ledgers are the budgets of the node, see drawLedgers.
	ledgers drawnLedgers
	// eventBuffer is the initial buffer of Events; most turns need no more.
	eventBuffer [4]events.Event
	// err is the error of the first event that the state machine refused. The turn is then void.
	err error
	// inline is the size of the values inside the commit, in bytes.
	inline int
	// requestedRetry is the retry rule that the agent requests for the failed call; nil for none.
	requestedRetry *work.Retry
	// unexpected is the result of a call that failed because the plan does not expect this result; nil for none.
	unexpected *unexpectedResult
}

// unexpectedResult is a result that the plan does not expect; nil stands for none.
type unexpectedResult struct {
	raw json.RawMessage
	// recorded is the result as the event of the failure records it.
	recorded events.Value
}

func (u *unexpectedResult) text() json.RawMessage {
	if u == nil {
		return nil
	}
	return u.raw
}

func (u *unexpectedResult) value() events.Value {
	if u == nil {
		return events.Value{}
	}
	return u.recorded
}

// Decide calls fn, which emits the events of a command or report, and then emits everything that follows from the resulting
// state. An error of fn, or an event that the state machine refuses, makes the turn void. If a void turn has events, the task
// in memory is wrong and must be read again.
func Decide(r Reading, actor string, fn func(*Turn) error) (*Turn, error) {
	t := &Turn{Reading: r, Actor: cmp.Or(actor, ActorNode)}
	t.Events = t.eventBuffer[:0]
	if t.Now.Before(t.Task.UpdatedAt) {
		t.Now = t.Task.UpdatedAt // the clock was set back; the times in a history never decrease
	}
	if err := fn(t); err != nil {
		return t, err
	}
	if !t.local {
		t.Plan.touchAll()
	}
	t.advance()
	return t, t.err
}

// Approvals returns the part of this turn that decides about approvals.
func (t *Turn) Approvals() Approvals { return Approvals{t} }

// Approvals decides about approvals.
type Approvals struct{ *Turn }

// Questions returns the part of this turn that decides about questions.
func (t *Turn) Questions() Questions { return Questions{t} }

// Questions decides about questions of running calls.
type Questions struct{ *Turn }

// Attempts returns the part of this turn that decides about attempts.
func (t *Turn) Attempts() Attempts { return Attempts{t} }

// Attempts decides about the calls that workers and agents hold, and about their outcomes.
type Attempts struct{ *Turn }

func (t *Turn) steps() steps { return steps{t} }

// steps starts the steps of the plan and makes their transitions.
type steps struct{ *Turn }

// stopped reports whether the turn emits no more events: it is void, or its rest is left to a later turn.
func (t *Turn) stopped() bool { return t.err != nil || t.Late || len(t.Missing) > 0 }

// Emit applies an event and adds it to the commit.
func (t *Turn) Emit(kind events.Kind, data events.Payload) {
	if t.stopped() {
		return
	}
	e := events.Event{Kind: kind, Data: data}
	if t.Rules.Counted {
		if call, ok := stats.Ended(t.Task, t.Now, e); ok {
			t.Calls = append(t.Calls, call)
		}
	}
	if cost, ok := costs.Of(t.Task, t.Now, e); ok {
		t.Paid = append(t.Paid, cost)
	}
	if t.err = t.Task.Apply(t.Now, e); t.err != nil {
		return
	}
	t.Events = append(t.Events, e)
	if step := events.StepOf(data); step != "" {
		t.Plan.touch(t.Task, step)
	}
}

// activate moves the task to IN_PROGRESS from any state in which work may start or continue.
func (t *Turn) activate() {
	switch t.Task.State {
	case statemachine.NeedsAction, statemachine.Assigned, statemachine.Planning:
		t.Emit(events.TaskStarted, &events.Moved{})
	case statemachine.Blocked:
		t.Emit(events.TaskUnblocked, &events.Moved{})
	default: // IN_PROGRESS already, waits for a decision, or has ended
	}
}

// Cancel starts the cancellation of a task. The task ends at once, or after its `always` steps.
func (t *Turn) Cancel(reason string) {
	if t.Task.Cancelling {
		return
	}
	t.Emit(events.TaskCancelRequested, &events.CancelRequested{Reason: reason})
}

// ResumeAt records the restore of a checkpoint, and ends the pause of the task or its block by expired approvals. It returns
// the time of the restore. A repetition of the request, because its answer was lost, changes nothing.
func (t *Turn) ResumeAt(id, by string) (time.Time, error) {
	if t.Task.State.Terminal() || !t.Task.Paused && !t.blockedByExpiry() {
		if done := t.Task.Resumed; done != nil && done.ID == id {
			return done.At, nil
		}
		return time.Time{}, t.errNotResumable()
	}
	t.Emit(events.CheckpointRestored, &events.Restored{ID: id, At: t.Now, Resumed: true})
	if t.Task.Paused {
		t.Emit(events.TaskResumed, &events.Paused{})
	}
	t.Approvals().AskAgain(by)
	return t.Now, nil
}

// blockedByExpiry reports whether an expired approval blocks the task. AskAgain lets the task continue.
func (t *Reading) blockedByExpiry() bool {
	return t.Task.State == statemachine.Blocked && (t.Task.Block == BlockExpired || t.anyStuck())
}

// errNotResumable returns the error for a resume of a task that cannot be resumed, with a hint for an alternative.
func (t *Reading) errNotResumable() error {
	err := fault.New(fault.StateNotAllowed, "task %s is %s: there is nothing to resume", t.Task.ID, t.Task.State)
	switch {
	case t.Task.State.Terminal():
		return err.WithHint("orch retry %s runs it again", t.Task.ID)
	case t.Task.State == statemachine.Blocked, t.Task.State == statemachine.AwaitingApproval:
		return err.WithHint("orch explain %s shows what it waits for", t.Task.ID)
	default:
		return err.WithHint("orch pause %s first", t.Task.ID)
	}
}

// SingleCall makes a single call ready, or records that it is denied by its gate or the list of allowed tools (S0-003, S0-008).
// It returns the step key of the call.
func (t *Turn) SingleCall(spec tools.Spec, args events.Value, by string) string {
	n := 1
	for t.Task.Steps[fmt.Sprintf("%s_%d!", PurposeCall, n)] != nil {
		n++
	}
	key := fmt.Sprintf("%s_%d!", PurposeCall, n)
	mayAsk := spec.Gate == tools.AwaitingApproval && statemachine.Check(t.Task.State, events.TaskApprovalRequested) == nil
	if allowed := t.Task.Submitted.Tools; !MayCall(allowed, spec.Name) {
		t.denySingle(key, spec.Name, args, fault.New(fault.Forbidden,
			"%s is not among the tools that the task may call: %s", spec.Name, strings.Join(allowed, ", ")))
		return key
	}
	if !slices.Contains(spec.Gate.States(), t.Task.State) && !mayAsk {
		t.denySingle(key, spec.Name, args, fault.New(fault.StateNotAllowed,
			"%s is not allowed while the task is %s; allowed: %v", spec.Name, t.Task.State, spec.Gate.States()))
		return key
	}
	queue := t.Task.Submitted.Queue
	if spec.AtNode {
		queue = work.NodeQueue
	}
	t.Emit(events.StepReady, &events.Ready{
		Step: key, Attempt: 1, Tool: spec.Name, Args: args, Effect: string(spec.Effect),
		Queue: queue, Purpose: PurposeCall, By: by, For: t.agentsFor(key, spec.Name, args),
	})
	return key
}

// denySingle records a single call that was denied. Its purpose distinguishes it from a step of the plan, which would mean that
// the task has started.
func (t *Turn) denySingle(key, tool string, args events.Value, why *fault.Error) {
	t.Emit(events.StepFailed, &events.StepError{
		Step: key, Class: fault.ClassDenied, Tool: tool, Args: args, Purpose: PurposeCall, Error: why,
	})
}

// IsSingleCall reports whether the task consists of one call of a tool.
func (t *Turn) IsSingleCall() bool {
	return len(t.Task.Order) == 1 && t.Task.Order[0] == plan.CallID
}
