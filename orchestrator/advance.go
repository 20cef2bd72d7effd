package orchestrator

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// advance emits everything that follows from the state of the task: steps that can start, timers
// that are due, the end. It stops when nothing more follows.
func (t *turn) advance() {
	for !t.stopped() {
		before := len(t.events)
		t.pass()
		if len(t.events) == before {
			break
		}
	}
	t.release()
	t.blockIfStuck()
}

func (t *turn) pass() {
	task := t.task
	t.callAgain()
	t.settleApprovals()
	t.settleQuestions()
	switch {
	case t.stopped() || task.Submitted == nil || task.State.Terminal():
	case t.overdue() && !task.Ending && !task.Cancelling:
		t.stopCalls("the deadline of the task has passed")
		t.end(fault.New(fault.Timeout, "the task was not over at its deadline %s", task.Submitted.Deadline.Format("2006-01-02 15:04:05 MST")))
	case task.Cancelling || task.Ending:
		t.windDown()
	case t.plan.unusable != nil:
		t.blockWithoutPlan()
	case t.mayMove():
		t.run()
	}
}

// callAgain makes single calls and questions of verify tools ready again that a worker has given back: they are no
// steps of the plan, so nothing else does. A call with a note goes on as it is, whatever has become of its task.
func (t *turn) callAgain() {
	for _, key := range t.task.Order {
		s := t.task.Steps[key]
		if s.State != statemachine.StepPending || s.Purpose == "" && !s.Noted() || t.early(s.Due) {
			continue
		}
		t.readyAgain(s, grantOf(t.task, s, t.now))
	}
}

// early reports whether a time is still to come, and sees to it that the task is woken then: an earlier
// timer may have passed before the clock was set back.
func (t *turn) early(at time.Time) bool {
	if !t.now.Before(at) {
		return false
	}
	t.facts.wake(at)
	return true
}

func (t *reading) overdue() bool {
	d := t.task.Submitted.Deadline
	return d != nil && !t.now.Before(*d)
}

// mayMove reports whether steps may start: the task is neither paused nor delayed, its dependencies
// are met, and it holds its concurrency key.
func (t *turn) mayMove() bool {
	sub := t.task.Submitted
	if t.task.Paused || len(t.task.Unmet) > 0 {
		return false
	}
	if sub.NotBefore != nil && t.early(*sub.NotBefore) {
		return false
	}
	return t.facts.acquire()
}

// run moves the steps of the plan on, then its verification, then its end.
func (t *turn) run() {
	if !t.section(t.plan.program.Steps()) || t.task.Ending || t.task.State == statemachine.AwaitingApproval {
		return
	}
	if verify := t.plan.program.Verify(); len(verify) > 0 {
		if t.task.State != statemachine.Completed {
			t.activate()
			t.emit(events.TaskCompleted, &events.Moved{Reason: "verifying"})
			return
		}
		if !t.section(verify) || t.task.Ending {
			return
		}
	}
	if len(t.plan.program.Always()) > 0 {
		t.end(nil)
		return
	}
	t.finish()
}

// section moves a list of steps on and reports whether all of them are over.
func (t *turn) section(nodes []*plan.Node) bool {
	settled := true
	for _, n := range nodes {
		if t.stopped() || t.task.Ending {
			return false
		}
		t.move(n, n.ID, nil)
		s := t.task.Steps[n.ID]
		if s == nil || !s.State.Over() {
			settled = false
			continue
		}
		if fatal(n, s) {
			t.end(stepFault(s))
			return false
		}
	}
	return settled
}

// fatal reports whether the end of a step ends the task.
func fatal(n *plan.Node, s *statemachine.Step) bool {
	return s.State == statemachine.StepFailed && (n.OnError == "" || n.OnError == plan.OnErrorFail)
}

// stepFault is the error of a task that a step has failed. The field is one of the step: it goes into the words, which
// stand alone in reasons and notifications.
func stepFault(s *statemachine.Step) *fault.Error {
	f := *fault.From(s.Error)
	f.Message, f.Field = "step "+s.Key+": "+f.Sentence(), ""
	return &f
}

// item is the place of a step inside a for_each.
type item struct {
	node  *plan.Node
	index int
	value events.Value
}

// move does the next thing for one step instance, if there is one. Once the task ends, only its
// `always` steps move.
func (t *turn) move(n *plan.Node, key string, in *item) {
	s := t.task.Steps[key]
	switch {
	case (t.task.Ending || t.task.Cancelling) && !t.isAlways(key):
	case s == nil:
		t.tryStart(n, key, in)
	case s.State == statemachine.StepPending && n.Kind == plan.KindApprove:
		t.askPeople(n, key, t.scope(in))
	case s.State == statemachine.StepPending:
		if s.Due.IsZero() || !t.early(s.Due) {
			t.ready(n, key, s.Args)
		}
	case s.State == statemachine.StepReady:
		t.checkStart(s)
	case s.State == statemachine.StepInDoubt:
		t.verifyCall(n, key, in)
	case s.State == statemachine.StepRunning && n.Kind == plan.KindForEach:
		t.eachItem(n, s)
	case s.State == statemachine.StepRunning && n.Kind == plan.KindWait:
		t.checkWait(s)
	}
}

// tryStart starts a step whose needs are over, or skips it.
func (t *turn) tryStart(n *plan.Node, key string, in *item) {
	for _, need := range n.Needs {
		s := t.task.Steps[t.scopeKey(need, in)]
		if s == nil || !s.State.Over() {
			return
		}
	}
	if need := t.missing(n, in); need != "" {
		t.emit(events.StepSkipped, &events.Skipped{Step: key, Reason: becauseOf + need})
		return
	}
	if t.late = t.late || t.facts.tired(); t.late {
		return
	}
	sc := t.scope(in)
	if reason := n.Unchosen(sc); reason != "" {
		t.emit(events.StepSkipped, &events.Skipped{Step: key, Reason: reason})
		return
	}
	wanted, err := n.If(sc)
	switch err = t.outcomeOf(err); {
	case err != nil:
		t.failStep(key, err)
	case !wanted:
		t.emit(events.StepSkipped, &events.Skipped{Step: key, Reason: "its condition is false"})
	default:
		t.start(n, key, sc)
	}
}

const becauseOf = "it needs "

// missing names a need that will never be met: one that failed and skips its dependents, or was
// itself skipped for that reason, or was cancelled.
func (t *reading) missing(n *plan.Node, in *item) string {
	for _, need := range n.Needs {
		s := t.task.Steps[t.scopeKey(need, in)]
		switch s.State {
		case statemachine.StepFailed:
			if t.nodeOf(need, in).OnError != plan.OnErrorContinue {
				return need + ", which failed"
			}
		case statemachine.StepSkipped:
			if len(s.Reason) > len(becauseOf) && s.Reason[:len(becauseOf)] == becauseOf {
				return need + ", which was skipped"
			}
		case statemachine.StepCancelled:
			return need + ", which was cancelled"
		default: // it succeeded
		}
	}
	return ""
}

// start begins a step by its kind.
func (t *turn) start(n *plan.Node, key string, sc plan.Scope) {
	switch n.Kind {
	case plan.KindTool:
		args, err := n.Args(sc)
		if err = t.outcomeOf(err, args); err != nil {
			t.failStep(key, err)
			return
		}
		t.ready(n, key, t.keep(args))
	case plan.KindSet, plan.KindSwitch:
		out, err := valuesOf(n, sc)
		if err = t.outcomeOf(err, out); err != nil {
			t.failStep(key, err)
			return
		}
		t.activate()
		t.emit(events.StepSucceeded, &events.Succeeded{Step: key, Output: t.keep(out)})
	case plan.KindWait:
		t.startWait(n, key, sc)
	case plan.KindForEach:
		t.startEach(n, key, sc)
	case plan.KindRun:
		t.startChild(n, key, sc)
	case plan.KindApprove:
		t.askPeople(n, key, sc)
	}
}

// valuesOf evaluates a step that is over at once.
func valuesOf(n *plan.Node, sc plan.Scope) (json.RawMessage, error) {
	if n.Kind == plan.KindSwitch {
		return n.Choose(sc)
	}
	return n.Set(sc)
}

// ready fixes a call and leaves it to a worker.
func (t *turn) ready(n *plan.Node, key string, args events.Value) {
	if limit := t.task.Submitted.MaxSteps; limit > 0 && t.task.Calls >= limit && !t.isAlways(key) {
		t.end(fault.New(fault.QuotaExceeded, "the task made %d calls, its limit", limit).WithField("limits.max_steps"))
		return
	}
	attempt, grant := 1, ""
	if s := t.task.Steps[key]; s != nil {
		attempt, grant = s.Attempt+1, grantOf(t.task, s, t.now)
	}
	if grant == "" {
		grant = t.coverOf(key)
	}
	t.emitReady(&events.Ready{
		Step: key, Attempt: attempt, Tool: n.Tool, Args: args, Effect: string(t.effect(n)),
		Queue: t.queueOf(n, n.Tool), Timeout: t.timeoutOf(n), Approval: grant,
	})
}

// failStep ends a step that could not even begin.
func (t *turn) failStep(key string, err error) {
	t.emit(events.StepFailed, &events.StepError{Step: key, Error: fault.From(err), Class: fault.ClassExpression})
}

// end keeps further steps from starting; what must run to the end does, then the `always` steps.
func (t *turn) end(err *fault.Error) {
	if t.task.Ending {
		return
	}
	t.emit(events.TaskEnding, &events.Ending{Error: err})
}

// windDown waits for running calls, runs the `always` steps and ends the task.
func (t *turn) windDown() {
	if t.task.Cancelling {
		t.stopCalls("the task is cancelled")
	}
	t.dropApprovals()
	if !t.settle() {
		return
	}
	for _, n := range t.plan.program.Always() {
		t.move(n, n.ID, nil)
	}
	for _, n := range t.plan.program.Always() {
		if s := t.task.Steps[n.ID]; t.stopped() || s == nil || !s.State.Over() {
			return
		}
	}
	t.dropProbes()
	switch {
	case t.task.Cancelling:
		t.emit(events.TaskCancelled, &events.Moved{Reason: t.task.CancelReason})
	case t.task.Error != nil:
		t.emit(events.TaskFailed, &events.Moved{Reason: t.task.Error.Message, Error: t.task.Error})
	default:
		t.finish()
	}
}

// settle cancels what only waits and reports whether no call of the plan's own steps is running.
func (t *turn) settle() bool {
	quiet := true
	for _, key := range slices.Clone(t.task.Order) {
		s := t.task.Steps[key]
		if t.isAlways(key) || s.State.Over() || s.State == statemachine.StepInDoubt {
			continue
		}
		if t.calling(s) {
			quiet = false
			continue
		}
		t.emit(events.StepCancelled, &events.Skipped{Step: key, Reason: "the task ends"})
	}
	return quiet
}

// calling reports whether a worker has the call of the step, or the call goes on elsewhere.
func (t *reading) calling(s *statemachine.Step) bool {
	_, held := t.facts.holder(s.Key)
	return s.Executing() || goesOn(s) || (s.State == statemachine.StepReady && held)
}

// stopCalls cancels the running calls of the plan's own steps.
func (t *turn) stopCalls(reason string) {
	for _, key := range slices.Clone(t.task.Order) {
		s := t.task.Steps[key]
		if !t.isAlways(key) && !s.State.Over() && s.State != statemachine.StepInDoubt {
			t.emit(events.StepCancelled, &events.Skipped{Step: key, Reason: reason})
		}
	}
}

// isAlways reports whether a step instance, or the call that verifies it, belongs to the `always` steps.
func (t *reading) isAlways(key string) bool {
	key, _, _ = strings.Cut(key, verifySuffix)
	return slices.ContainsFunc(t.plan.program.Always(), func(n *plan.Node) bool {
		return key == n.ID || itemOf(key) == n.ID
	})
}

// dropProbes cancels verify calls whose question somebody else has answered.
func (t *turn) dropProbes() {
	for _, key := range slices.Clone(t.task.Order) {
		if s := t.task.Steps[key]; s.Purpose == purposeVerify && !s.State.Over() {
			t.emit(events.StepCancelled, &events.Skipped{Step: key, Reason: "its question is answered"})
		}
	}
}

// finish evaluates the outputs and ends the task well.
func (t *turn) finish() {
	t.dropProbes()
	out, err := t.plan.program.Outputs(t.scope(nil))
	if err = t.outcomeOf(err, out); err != nil {
		t.fail(err)
		return
	}
	if t.task.State == statemachine.Completed {
		t.emit(events.TaskFinalized, &events.Moved{Output: t.keep(out)})
		return
	}
	t.activate()
	t.emit(events.TaskFinished, &events.Moved{Output: t.keep(out)})
}

func (t *turn) fail(err error) {
	f := fault.From(err)
	t.emit(events.TaskFailed, &events.Moved{Reason: f.Message, Error: f})
}

// The kinds of blocks that the owner itself makes.
const (
	blockDependency = "dependency"
	blockInput      = "input"
	blockResource   = "resource"
)

// blockIfStuck blocks a task that can only go on when a person decides about a step in doubt, or somebody
// answers what a call asks.
func (t *turn) blockIfStuck() {
	if t.stopped() || t.task.State != statemachine.InProgress && t.task.State != statemachine.Assigned {
		return
	}
	var doubtful, asking, waiting *statemachine.Step
	for _, key := range t.task.Order {
		switch s := t.task.Steps[key]; {
		case t.waitsToVerify(s):
			return
		case s.State == statemachine.StepInDoubt:
			doubtful = s
		case inquires(s) && s.Purpose == purposeCall: // it is beside the plan
		case inquires(s):
			asking = s
		case t.stuck(s):
			waiting = s
		case s.State.Over(), s.State == statemachine.StepRunning && s.Items != nil:
		default:
			return // something still moves
		}
	}
	switch {
	case doubtful != nil:
		t.emit(events.TaskBlocked, &events.Moved{Block: blockInput, Reason: doubt(doubtful)})
	case asking != nil:
		t.emit(events.TaskBlocked, &events.Moved{Block: blockInput, Reason: t.waitsForAnswer(asking)})
	case waiting != nil:
		t.emit(events.TaskBlocked, &events.Moved{Block: blockExpired, Reason: expired(t.newest(waiting.Approval)).Message})
	}
}

// doubt says in which doubt a step is.
func doubt(doubtful *statemachine.Step) string {
	reason := "it is unknown whether step " + doubtful.Key + " took effect"
	switch {
	case doubtful.Lost > 1 && doubtful.For != nil:
		reason += ": " + unended(doubtful.Lost, doubtful.Stopped)
	case doubtful.Lost > 1:
		reason += ", which has lost " + strconv.Itoa(doubtful.Lost) + " workers"
	}
	return reason
}

// blockWithoutPlan blocks a task whose plan cannot be read, wherever it is.
func (t *turn) blockWithoutPlan() {
	if statemachine.Check(t.task.State, events.TaskBlocked) == nil {
		t.emit(events.TaskBlocked, &events.Moved{Block: blockResource, Reason: "its plan cannot be read: " + t.plan.unusable.Message})
	}
}
