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

// reapTime is what it takes until the children of a process have ended that has ended itself.
const reapTime = 2 * time.Second

// MayRunUntil is until when the call of a step may still run whose worker is heard of no more: for its time limit, which its
// worker keeps to also while nobody hears of it, and what ending it takes. Zero when that is over.
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

// WaitsToVerify reports whether the verify tool of a step in doubt will be asked later.
func (t *Reading) WaitsToVerify(s *statemachine.Step) bool {
	if !s.MayRun(t.Now) {
		return false // the usual case, asked of every step at every turn
	}
	n := t.NodeByKey(s.Key)
	return n != nil && n.Verify != nil
}

// verifyCall lets the step's own verify tool decide about a call in doubt, once that does not run any more: as long as it
// does, its effect may come after the answer.
func (t steps) verifyCall(n *plan.Node, key string, in *Item) {
	if n.Verify == nil || !failpoint.On(failpoint.AskEarly) && t.early(t.Task.Steps[key].Due) {
		return // a person decides, or its time has not come
	}
	asking := t.probeOf(key)
	if probe := t.Task.Steps[asking]; probe != nil {
		t.judge(n, key, probe)
		return
	}
	tool, args, ok, err := n.VerifyCall(t.verifyScope(key, in))
	if err = t.OutcomeOf(err, args); !ok || err != nil {
		return // a person decides
	}
	t.Emit(events.StepReady, &events.Ready{
		Step: asking, Attempt: 1, Tool: tool, Args: t.keep(args), Effect: string(tools.Read),
		Queue: t.queueOf(n, tool), Timeout: t.timeoutOf(n), Purpose: purposeVerify,
	})
}

// probeOf names the call that asks about the newest attempt of a step: what was found about an earlier attempt says nothing. One
// that has lost its worker says nothing either, so that another one asks, as often as a call is handed out.
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

// judge turns what the verify tool found into a decision, if it found anything.
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
		return // it is poison: a person decides whether it is worth another worker
	}
	t.activate()
	decision := &events.Resolved{Step: key, As: "retry", By: "the verify tool " + probe.Tool}
	if happened {
		decision.As, decision.Output = "succeeded", probe.Output
	}
	t.Emit(events.StepResolved, decision)
}
