package decide

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// run moves the steps of the plan, then its verification, then ends the task.
func (t steps) run() {
	if !t.section(mainSection, t.Plan.Program.Steps()) || t.Task.Ending || t.Task.State == statemachine.AwaitingApproval {
		return
	}
	if verify := t.Plan.Program.Verify(); len(verify) > 0 {
		if t.Task.State != statemachine.Completed {
			t.activate()
			t.Emit(events.TaskCompleted, &events.Moved{Reason: "verifying"})
			return
		}
		if !t.section(verifySection, verify) || t.Task.Ending {
			return
		}
	}
	if len(t.Plan.Program.Always()) > 0 {
		t.End(nil)
		return
	}
	t.finish()
}

// section moves the steps of one section of the plan and reports whether all of them have ended. A step that failed may end the
// task, but for those of `always`.
func (t steps) section(which section, nodes []*plan.Node) bool {
	f := t.Plan.frontierOf(which, nodes, t.Task)
	for i, ok := f.due.take(0); ok; i, ok = f.due.take(i + 1) {
		s := t.visit(f, i)
		switch {
		case t.stopped():
			return false
		case which == alwaysSection:
		case s != nil && fatal(nodes[i], s):
			t.End(stepFault(s))
			return false
		case t.Task.Ending:
			return false
		}
	}
	return f.unended == 0
}

// visit moves one step of a section and returns it; nil if it has not begun.
func (t steps) visit(f *frontier, i int) *statemachine.Step {
	n := f.nodes[i]
	t.move(n, n.ID, nil)
	s := t.Task.Steps[n.ID]
	switch {
	case t.stopped():
		f.due.add(i)
	case s != nil && s.State.Terminal():
		f.open.remove(i)
	}
	return s
}

// move makes the next transition of one step instance, if one is possible. When the task is ending, only its `always` steps
// move.
func (t steps) move(n *plan.Node, key string, in *Item) {
	s := t.Task.Steps[key]
	switch {
	case (t.Task.Ending || t.Task.Cancelling) && !t.isAlways(key):
	case s == nil:
		t.tryStart(n, key, in)
	case s.State == statemachine.StepPending && n.Kind == plan.KindApprove:
		t.Approvals().startApprove(n, key, t.scope(in))
	case s.State == statemachine.StepPending:
		if s.Due.IsZero() || !t.notYet(s.Due) {
			t.ready(n, key, s.Args)
		}
	case s.State == statemachine.StepReady:
		t.checkStart(s)
	case s.State == statemachine.StepInDoubt:
		t.verifyCall(n, key, in)
	case s.State == statemachine.StepRunning && s.Divided != nil:
		t.moveParts(n, s)
	case s.State == statemachine.StepRunning && n.Kind == plan.KindForEach:
		t.moveItems(n, s)
	case s.State == statemachine.StepRunning && n.Kind == plan.KindAgent:
		t.moveAgent(n, s)
	case s.State == statemachine.StepRunning && n.Kind == plan.KindWait:
		t.checkWait(s)
	}
}

// tryStart starts a step whose needs have ended, or skips it.
func (t steps) tryStart(n *plan.Node, key string, in *Item) {
	for _, need := range n.Needs {
		s := t.Task.Steps[t.scopeKey(need, in)]
		if s == nil || !s.State.Terminal() {
			return
		}
	}
	if need := t.unmetNeed(n, in); need != "" {
		t.Emit(events.StepSkipped, &events.Skipped{Step: key, Reason: needPrefix + need})
		return
	}
	if t.Late = t.Late || t.Facts.TimeUp(); t.Late {
		return
	}
	sc := t.scope(in)
	if reason := n.CaseSkipReason(sc); reason != "" {
		t.Emit(events.StepSkipped, &events.Skipped{Step: key, Reason: reason})
		return
	}
	wanted, err := n.If(sc)
	switch err = t.OutcomeOf(err); {
	case err != nil:
		t.failStep(key, err)
	case !wanted:
		t.Emit(events.StepSkipped, &events.Skipped{Step: key, Reason: "its condition is false"})
	default:
		t.start(n, key, sc)
	}
}

// needPrefix begins the reason of a step that is skipped because of a need.
const needPrefix = "it needs "

// unmetNeed returns a need that can never be met, with the reason: a step that failed, was cancelled, or was itself skipped
// because of a need. It returns "" if there is none.
func (t steps) unmetNeed(n *plan.Node, in *Item) string {
	for _, need := range n.Needs {
		s := t.Task.Steps[t.scopeKey(need, in)]
		switch s.State {
		case statemachine.StepFailed:
			if t.nodeOf(need, in).OnError != plan.OnErrorContinue {
				return need + ", which failed"
			}
		case statemachine.StepSkipped:
			if len(s.Reason) > len(needPrefix) && s.Reason[:len(needPrefix)] == needPrefix {
				return need + ", which was skipped"
			}
		case statemachine.StepCancelled:
			return need + ", which was cancelled"
		default: // it succeeded
		}
	}
	return ""
}

// start starts a step according to its kind.
func (t steps) start(n *plan.Node, key string, sc plan.Scope) {
	switch n.Kind {
	case plan.KindTool:
		args, err := n.Args(sc)
		if err = t.OutcomeOf(err, args); err != nil {
			t.failStep(key, err)
			return
		}
		t.ready(n, key, t.value(args))
	case plan.KindSet, plan.KindSwitch:
		out, err := valuesOf(n, sc)
		if err = t.OutcomeOf(err, out); err != nil {
			t.failStep(key, err)
			return
		}
		t.activate()
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: key, Output: t.value(out)})
	case plan.KindWait:
		t.startWait(n, key, sc)
	case plan.KindForEach:
		t.startEach(n, key, sc)
	case plan.KindRun:
		t.startChild(n, key, sc)
	case plan.KindApprove:
		t.Approvals().startApprove(n, key, sc)
	case plan.KindAgent:
		t.startAgent(n, key, sc)
	}
}

// valuesOf evaluates a set or switch step, which ends at once.
func valuesOf(n *plan.Node, sc plan.Scope) (json.RawMessage, error) {
	if n.Kind == plan.KindSwitch {
		return n.Choose(sc)
	}
	return n.Set(sc)
}

// ready makes a call ready for a worker.
func (t steps) ready(n *plan.Node, key string, args events.Value) {
	if limit := t.Task.Submitted.MaxSteps; limit > 0 && t.Task.Calls >= limit && !t.isAlways(key) {
		t.End(t.errMaxSteps())
		return
	}
	attempt, grant := 1, ""
	if s := t.Task.Steps[key]; s != nil {
		attempt, grant = s.Attempt+1, GrantOf(t.Task, s, t.Now)
	}
	if grant == "" {
		grant = t.Approvals().coverOf(key)
	}
	t.Approvals().emitReady(&events.Ready{
		Step: key, Attempt: attempt, Tool: n.Tool, Args: args, Effect: string(t.effect(n)),
		Queue: t.queueOf(n, n.Tool), Timeout: t.timeoutOf(n), Approval: grant,
	})
}

// failStep fails a step that could not start.
func (t steps) failStep(key string, err error) {
	t.Emit(events.StepFailed, &events.StepError{Step: key, Error: fault.From(err), Class: fault.ClassExpression})
}

// checkStart fails a call that was queued longer than its plan allows. After a pause, the time starts again.
func (t steps) checkStart(s *statemachine.Step) {
	waited := t.Facts.Overdue(s.Key, t.Now)
	if waited == 0 {
		return
	}
	who, hint := "a worker of queue "+QueueName(s.Queue), "start one: orch worker --queue "+QueueName(s.Queue)
	if s.For != nil {
		who, hint = WantedAgents(s.For), "see who is there: orch agents"
	}
	if limit := t.Facts.Limit(s.Key); limit != "" {
		who, hint = "a limit of the node (call_limits): "+limit, "see docs/reference/limits.md, limits of calls"
	}
	err := fault.New(fault.Timeout, "nobody has taken the call within %s; it waited for %s", waited, who).WithHint("%s", hint)
	t.Attempts().Failed(s, err, fault.ClassExpired, 0)
}

// startWait starts a wait for a duration, a time or a signal.
func (t steps) startWait(n *plan.Node, key string, sc plan.Scope) {
	w, err := n.Wait(sc)
	if err = t.OutcomeOf(err, w.Default, []byte(w.Signal)); err != nil {
		t.failStep(key, err)
		return
	}
	data := &events.Waiting{Step: key, Signal: w.Signal, Default: t.value(w.Default)}
	switch {
	case w.Kind == "for":
		data.Until = new(events.Time(t.Now.Add(w.For)))
	case w.Kind == "until":
		data.Until = new(events.Time(w.Until))
	case w.Timeout > 0:
		data.Until = new(events.Time(t.Now.Add(w.Timeout)))
	}
	t.activate()
	t.Emit(events.StepWaiting, data)
}

// checkWait ends a wait if its signal has arrived or its time has passed.
func (t steps) checkWait(s *statemachine.Step) {
	for _, sig := range t.Task.Signals {
		if s.Signal != "" && sig.Name == s.Signal {
			t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: sig.Data})
			return
		}
	}
	switch {
	case s.Due.IsZero() || t.notYet(s.Due):
	case s.Signal == "" || !s.Default.IsZero():
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: s.Default})
	default:
		t.Emit(events.StepFailed, &events.StepError{
			Step: s.Key, Class: fault.ClassExpired,
			Error: fault.New(fault.Timeout, "the signal %q did not come in time", s.Signal),
		})
	}
}

// startChild starts a sub-plan as a child task.
func (t steps) startChild(n *plan.Node, key string, sc plan.Scope) {
	inputs, err := n.Args(sc)
	if err = t.OutcomeOf(err, inputs); err == nil {
		inputs, err = n.Sub.CheckInputs(inputs)
	}
	if err == nil {
		err = t.checkDepth()
	}
	if err != nil {
		t.failStep(key, err)
		return
	}
	t.activate()
	t.Emit(events.StepSpawned, &events.Spawned{Step: key, Child: events.TaskIDFrom(t.Now, t.Rules.Entropy), Inputs: t.value(inputs)})
}

// maxDepth limits how deep child tasks nest (S0-181).
const maxDepth = 3

// checkDepth returns QUOTA_EXCEEDED if the task must not have a child task.
func (t steps) checkDepth() error {
	if p := t.Task.Submitted.Parent; p != nil && p.Depth >= maxDepth {
		return fault.New(fault.QuotaExceeded, "child tasks nest at most %d deep", maxDepth)
	}
	return nil
}
