package decide

import (
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// reapTime is how long the children of an ended process may take to end.
const reapTime = 2 * time.Second

// MayRunUntil returns until when the call of a step with a lost worker may still run. The worker enforces the time limit even
// while the node cannot hear it, and needs time to end the call. It returns zero if that time has passed.
func (t *Reading) MayRunUntil(s *statemachine.Step) time.Time {
	until := s.CalledAt.Add(t.limitOf(s) + t.Rules.Overrun)
	if reaped := t.Now.Add(reapTime); slices.Contains(t.Rules.Gone, s.Worker) && reaped.Before(until) {
		until = reaped
	}
	if !until.After(t.Now) {
		return time.Time{}
	}
	return events.Time(until)
}

// WaitsToVerify reports whether the verify tool of a step in doubt will be called later.
func (t *Reading) WaitsToVerify(s *statemachine.Step) bool {
	if !s.MayStillRun(t.Now) {
		return false // the usual case, checked for every step in every turn
	}
	n := t.NodeByKey(s.Key)
	return n != nil && n.Verify != nil
}

// verifyCall calls the step's verify tool to resolve a call in doubt, once that call cannot run any more. While it may run, its
// effect could come after the answer.
func (t steps) verifyCall(n *plan.Node, key string, in *Item) {
	if n.Verify == nil || !failpoint.On(failpoint.AskEarly) && t.notYet(t.Task.Steps[key].Due) {
		return // a person resolves it, or it may still run
	}
	asking := t.probeOf(key)
	if probe := t.Task.Steps[asking]; probe != nil {
		t.judge(n, key, probe)
		return
	}
	tool, args, ok, err := n.VerifyCall(t.verifyScope(key, in))
	if err = t.OutcomeOf(err, args); !ok || err != nil {
		return // a person resolves it
	}
	t.Emit(events.StepReady, &events.Ready{
		Step: asking, Attempt: 1, Tool: tool, Args: t.value(args), Effect: string(tools.Read),
		Queue: t.queueOf(n, tool), Timeout: t.timeoutOf(n), Purpose: purposeVerify,
	})
}

// probeOf returns the step key of the verify call for the newest attempt of a step. The result for an earlier attempt does not
// count. A verify call that lost its worker is followed by another, up to the limit of deliveries.
func (t steps) probeOf(key string) string {
	first := key + verifySuffix + strconv.Itoa(t.Task.Steps[key].Attempt)
	asking := first
	for n := 2; n <= t.Rules.MaxDeliveries; n++ {
		probe := t.Task.Steps[asking]
		if probe == nil || probe.State != statemachine.StepFailed || !interrupted(probe.Class) {
			break
		}
		asking = first + "." + strconv.Itoa(n)
	}
	return asking
}

// judge resolves a step in doubt by the result of its verify call, if it is conclusive.
func (t steps) judge(n *plan.Node, key string, probe *statemachine.Step) {
	if probe.State != statemachine.StepSucceeded {
		return
	}
	output := t.Fetch(probe.Output)
	happened, err := n.VerifyExpect(output)
	if err = t.OutcomeOf(err); err != nil || t.stopped() {
		return
	}
	if !happened && t.Task.Steps[key].Lost >= t.Rules.MaxDeliveries {
		return // a person decides whether this poison call is worth another worker
	}
	t.activate()
	decision := &events.Resolved{Step: key, As: "retry", By: "the verify tool " + probe.Tool}
	if happened {
		decision.As, decision.Output = "succeeded", probe.Output
	}
	t.Emit(events.StepResolved, decision)
}
