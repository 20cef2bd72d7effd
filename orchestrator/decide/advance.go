package decide

import (
	"strconv"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// advance emits everything that follows from the state of the task: steps that can start, timers that are due, the end. It
// returns when nothing more follows.
func (t *Turn) advance() {
	for !t.stopped() {
		before := len(t.Events)
		t.advanceOnce()
		if len(t.Events) == before {
			break
		}
	}
	t.Attempts().release()
	t.blockIfStuck()
}

func (t *Turn) advanceOnce() {
	task := t.Task
	t.retryCalls()
	t.Approvals().resolveApprovals()
	t.Questions().resolveQuestions()
	switch {
	case t.stopped() || task.Submitted == nil || task.State.Terminal():
	case t.overdue() && !task.Ending && !task.Cancelling:
		t.stopCalls("the deadline of the task has passed")
		t.End(fault.New(fault.Timeout, "the task was not over at its deadline %s", task.Submitted.Deadline.Format("2006-01-02 15:04:05 MST")))
	case task.Cancelling || task.Ending:
		t.windDown()
	case t.Plan.Unusable != nil:
		t.blockWithoutPlan()
	case t.stepsMayStart():
		t.steps().run()
	}
}

// retryCalls makes pending calls ready again that steps.move does not handle: single calls and verify calls, which are not
// steps of the plan, and calls that continue work elsewhere, which do so in any state of the task.
func (t *Turn) retryCalls() {
	for _, s := range t.Task.In(statemachine.StepPending) {
		if s.State != statemachine.StepPending || s.Purpose == "" && !s.RunsElsewhere() || t.notYet(s.Due) ||
			AsksModel(s) && !t.Attempts().mayAskAgain(s) {
			continue
		}
		t.Approvals().readyAgain(s, GrantOf(t.Task, s, t.Now))
	}
}

// notYet reports whether a time is in the future. If so, it sets a timer for it: an earlier timer may have fired before the
// clock was set back.
func (t *Turn) notYet(at time.Time) bool {
	if !t.Now.Before(at) {
		return false
	}
	t.Facts.Wake(at)
	return true
}

// stepsMayStart reports whether steps may start: the task is neither paused nor delayed, its dependencies are met, and it holds
// its concurrency key.
func (t *Turn) stepsMayStart() bool {
	sub := t.Task.Submitted
	if t.Task.Paused || len(t.Task.Unmet) > 0 {
		return false
	}
	if sub.NotBefore != nil && t.notYet(*sub.NotBefore) {
		return false
	}
	return t.Facts.Acquire()
}

// End starts the end of the task with an error, or nil. No further steps start. When the running calls have ended, the `always`
// steps run, and then the task ends.
func (t *Turn) End(err *fault.Error) {
	if t.Task.Ending {
		return
	}
	t.Emit(events.TaskEnding, &events.Ending{Error: err})
}

// windDown waits for running calls, runs the `always` steps and ends the task.
func (t *Turn) windDown() {
	if t.Task.Cancelling {
		t.stopCalls("the task is cancelled")
	}
	t.Approvals().dropApprovals()
	if !t.cancelWaiting() {
		return
	}
	if !t.steps().section(alwaysSection, t.Plan.Program.Always()) {
		return
	}
	t.dropProbes()
	t.chargeOpen()
	switch {
	case t.Task.Cancelling:
		t.Emit(events.TaskCancelled, &events.Moved{Reason: t.Task.CancelReason})
	case t.Task.Error != nil:
		t.Emit(events.TaskFailed, &events.Moved{Reason: t.Task.Error.Message, Error: t.Task.Error})
	default:
		t.finish()
	}
}

// cancelWaiting cancels steps that wait, and reports whether no call of a step outside `always` is running.
func (t *Turn) cancelWaiting() bool {
	quiet := true
	for _, s := range t.Task.Live() {
		if t.isAlways(s.Key) || s.State.Terminal() || s.State == statemachine.StepInDoubt {
			continue
		}
		if t.callActive(s) || s.Parallel > 0 { // a part ends by itself
			quiet = false
			continue
		}
		t.Emit(events.StepCancelled, &events.Skipped{Step: s.Key, Reason: "the task ends"})
	}
	return quiet
}

// stopCalls cancels all steps outside `always` that have not ended and are not in doubt.
func (t *Turn) stopCalls(reason string) {
	for _, s := range t.Task.Live() {
		if !t.isAlways(s.Key) && !s.State.Terminal() && s.State != statemachine.StepInDoubt {
			t.Emit(events.StepCancelled, &events.Skipped{Step: s.Key, Reason: reason})
		}
	}
}

// dropProbes cancels the verify calls that have not ended, because their results are no longer needed.
func (t *Turn) dropProbes() {
	for _, s := range t.Task.Live() {
		if s.Purpose == purposeVerify && !s.State.Terminal() {
			t.Emit(events.StepCancelled, &events.Skipped{Step: s.Key, Reason: "its question is answered"})
		}
	}
}

// finish evaluates the outputs and ends the task successfully.
func (t *Turn) finish() {
	t.dropProbes()
	if part := t.Task.Part; part != nil {
		t.activate()
		t.Emit(events.TaskFinished, &events.Moved{Output: t.Task.Steps[part.Step].Output})
		return
	}
	out, err := t.Plan.Program.Outputs(t.scope(nil))
	if err = t.OutcomeOf(err, out); err != nil {
		t.fail(err)
		return
	}
	if t.Task.State == statemachine.Completed {
		t.Emit(events.TaskFinalized, &events.Moved{Output: t.value(out)})
		return
	}
	t.activate()
	t.Emit(events.TaskFinished, &events.Moved{Output: t.value(out)})
}

func (t *Turn) fail(err error) {
	f := fault.From(err)
	t.Emit(events.TaskFailed, &events.Moved{Reason: f.Message, Error: f})
}

// The kinds of blocks that a decision can cause.
const (
	BlockDependency = "dependency"
	blockInput      = "input"
	BlockResource   = "resource"
)

// blockIfStuck blocks a task that can only continue when a person resolves a step in doubt, decides about an expired approval,
// or answers a question of a call.
func (t *Turn) blockIfStuck() {
	if t.stopped() || t.Task.State != statemachine.InProgress && t.Task.State != statemachine.Assigned {
		return
	}
	if t.Task.Count(statemachine.StepPending)+t.Task.Count(statemachine.StepReady) > 0 {
		return // these steps can continue without a person
	}
	var doubtful, asking, waiting, chatting *statemachine.Step
	for _, s := range t.Task.Live() {
		switch {
		case t.WaitsToVerify(s):
			return
		case s.State == statemachine.StepInDoubt:
			doubtful = s
		case WaitsForAnswers(s) && s.Purpose == PurposeCall: // not part of the plan
		case WaitsForAnswers(s):
			asking = s
		case t.Stuck(s):
			waiting = s
		case s.State == statemachine.StepRunning && s.Agent != nil && s.Agent.Waits():
			chatting = s
		case s.State.Terminal(), s.State == statemachine.StepRunning && (s.Items != nil || s.Agent != nil):
		default:
			return // this step can continue without a person
		}
	}
	switch {
	case doubtful != nil:
		t.Emit(events.TaskBlocked, &events.Moved{Block: blockInput, Reason: doubtReason(doubtful)})
	case asking != nil:
		t.Emit(events.TaskBlocked, &events.Moved{Block: blockInput, Reason: t.WaitsForAnswer(asking)})
	case chatting != nil:
		t.Emit(events.TaskBlocked, &events.Moved{Block: blockInput, Reason: "the agent of step " + chatting.Key + " waits for a message"})
	case waiting != nil:
		t.Emit(events.TaskBlocked, &events.Moved{Block: BlockExpired, Reason: expired(t.Newest(waiting.Approval)).Message})
	}
}

// doubtReason returns the reason of a block by a step in doubt.
func doubtReason(doubtful *statemachine.Step) string {
	reason := "it is unknown whether step " + doubtful.Key + " took effect"
	switch {
	case doubtful.Lost > 1 && doubtful.For != nil:
		reason += ": " + Unended(doubtful.Lost, doubtful.Stopped)
	case doubtful.Lost > 1:
		reason += ", which has lost " + strconv.Itoa(doubtful.Lost) + " workers"
	}
	return reason
}

// blockWithoutPlan blocks a task whose plan cannot be read.
func (t *Turn) blockWithoutPlan() {
	if statemachine.Check(t.Task.State, events.TaskBlocked) == nil {
		t.Emit(events.TaskBlocked, &events.Moved{Block: BlockResource, Reason: "its plan cannot be read: " + t.Plan.Unusable.Message})
	}
}
