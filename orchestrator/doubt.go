package orchestrator

import (
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// This file holds what becomes of calls in doubt: until when they may still run, and what their verify tool says about them.

// reapTime is what it takes until the children of a process have ended that has ended itself.
const reapTime = 2 * time.Second

// mayRunUntil is until when the call of a step may still run whose worker is heard of no more: for its time limit, which its
// worker keeps to also while nobody hears of it, and what ending it takes. Zero when that is over.
func (t *reading) mayRunUntil(s *statemachine.Step) time.Time {
	until := s.CalledAt.Add(t.limitOf(s) + t.rules.overrun)
	if reaped := t.now.Add(reapTime); slices.Contains(t.rules.gone, s.Worker) && reaped.Before(until) {
		until = reaped
	}
	if !until.After(t.now) {
		return time.Time{}
	}
	return events.Time(until)
}

// limitOf is the time limit of the call of a step.
func (t *reading) limitOf(s *statemachine.Step) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	if tool, ok := t.rules.catalogue.Get(s.Tool); ok && tool.Spec().Timeout > 0 {
		return tool.Spec().Timeout
	}
	return work.UsualTimeout
}

// waitsToVerify reports whether the verify tool of a step in doubt will be asked later.
func (t *reading) waitsToVerify(s *statemachine.Step) bool {
	if !s.MayRun(t.now) {
		return false // the usual case, asked of every step at every turn
	}
	n := t.nodeByKey(s.Key)
	return n != nil && n.Verify != nil
}

// verifyCall lets the step's own verify tool decide about a call in doubt, once that does not run any more: as long as it
// does, its effect may come after the answer.
func (t *turn) verifyCall(n *plan.Node, key string, in *item) {
	if n.Verify == nil || !failpoint.On(failpoint.AskEarly) && t.early(t.task.Steps[key].Due) {
		return // a person decides, or its time has not come
	}
	asking := t.probeOf(key)
	if probe := t.task.Steps[asking]; probe != nil {
		t.judge(n, key, probe)
		return
	}
	tool, args, ok, err := n.VerifyCall(t.verifyScope(key, in))
	if err = t.outcomeOf(err, args); !ok || err != nil {
		return // a person decides
	}
	t.emit(events.StepReady, &events.Ready{
		Step: asking, Attempt: 1, Tool: tool, Args: t.keep(args), Effect: string(tools.Read),
		Queue: t.queueOf(n, tool), Timeout: t.timeoutOf(n), Purpose: purposeVerify,
	})
}

// probeOf names the call that asks about the newest attempt of a step: what was found about an earlier attempt says nothing. One
// that has lost its worker says nothing either, so that another one asks, as often as a call is handed out.
func (t *reading) probeOf(key string) string {
	first := key + verifySuffix + strconv.Itoa(t.task.Steps[key].Attempt)
	asking := first
	for n := 2; n <= t.rules.maxDeliveries; n++ {
		probe := t.task.Steps[asking]
		if probe == nil || probe.State != statemachine.StepFailed || !interrupted(probe.Class) {
			break
		}
		asking = first + "." + strconv.Itoa(n)
	}
	return asking
}

// judge turns what the verify tool found into a decision, if it found anything.
func (t *turn) judge(n *plan.Node, key string, probe *statemachine.Step) {
	if probe.State != statemachine.StepSucceeded {
		return
	}
	output := t.fetch(probe.Output)
	happened, err := n.VerifyExpect(output)
	if err = t.outcomeOf(err); err != nil || t.stopped() {
		return
	}
	if !happened && t.task.Steps[key].Lost >= t.rules.maxDeliveries {
		return // it is poison: a person decides whether it is worth another worker
	}
	t.activate()
	decision := &events.Resolved{Step: key, As: "retry", By: "the verify tool " + probe.Tool}
	if happened {
		decision.As, decision.Output = "succeeded", probe.Output
	}
	t.emit(events.StepResolved, decision)
}
