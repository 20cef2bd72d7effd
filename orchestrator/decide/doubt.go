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

// MayRunUntil returns until when the call of a step may still run although its worker is lost. The worker enforces the time
// limit of the call even without a connection to the node, but needs time to end the call. MayRunUntil returns zero if that
// time has passed.
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

// verifyCall calls the verify tool of a step to resolve a call in doubt. It waits until that call cannot run any more, because
// a running call could have its effect after the answer of the verify tool.
func (t steps) verifyCall(n *plan.Node, key string, in *Item) {
	if n.Verify == nil || !failpoint.On(failpoint.AskEarly) && t.notYet(t.Task.Steps[key].Due) {
		return // a person resolves it, or it may still run
	}
	probeKey := t.probeKeyOf(key)
	if probe := t.Task.Steps[probeKey]; probe != nil {
		t.judge(n, key, probe)
		return
	}
	tool, args, ok, err := n.VerifyCall(t.verifyScope(key, in))
	if err = t.OutcomeOf(err, args); !ok || err != nil {
		return // a person resolves it
	}
	t.Emit(events.StepReady, &events.Ready{
		Step: probeKey, Attempt: 1, Tool: tool, Args: t.value(args), Effect: string(tools.Read),
		Queue: t.queueOf(n, tool), Timeout: t.timeoutOf(n), Purpose: purposeVerify,
	})
}

// probeKeyOf returns the step key of the verify call for the newest attempt of a step. Verify calls for earlier attempts do not
// count. A verify call that lost its worker is followed by another one, up to the limit of deliveries.
func (t steps) probeKeyOf(key string) string {
	first := key + verifySuffix + strconv.Itoa(t.Task.Steps[key].Attempt)
	probeKey := first
	for n := 2; n <= t.Rules.MaxDeliveries; n++ {
		probe := t.Task.Steps[probeKey]
		if probe == nil || probe.State != statemachine.StepFailed || !interrupted(probe.Class) {
			break
		}
		probeKey = first + "." + strconv.Itoa(n)
	}
	return probeKey
}

// judge resolves a step in doubt by the result of its verify call, if the result is conclusive.
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
		return // a person decides whether to risk another worker for this call
	}
	t.activate()
	decision := &events.Resolved{Step: key, As: "retry", By: "the verify tool " + probe.Tool}
	if happened {
		decision.As, decision.Output = "succeeded", probe.Output
	}
	t.Emit(events.StepResolved, decision)
}
