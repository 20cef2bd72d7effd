package decide

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// stubbed answers a call by the stubs of the agent, or refuses it. It returns false for a call that may be made.
func (t turns) stubbed(stubs *plan.Stubs, key, tool string, args json.RawMessage) bool {
	switch {
	case t.recorded(key, tool, args):
	case stubs.Makes(tool, t.onlyReads(tool)):
		return false
	default:
		t.deny(key, tool, string(args), fault.New(fault.Forbidden, "there is no recorded result of this call of %s, and it may not be made here", tool).WithReason(plan.ReasonNoStub))
	}
	return true
}

// recorded answers a call with the result that the stubs of the agent have for it; false if they have none.
func (t turns) recorded(key, tool string, args json.RawMessage) bool {
	stubs := t.node.Agent.Stubs
	if stubs == nil {
		return false
	}
	matching := stubs.Matching(tool, args)
	if len(matching) == 0 {
		return false
	}
	at := 0
	if len(matching) > 1 {
		at = min(t.madeBefore(key), len(matching)-1)
	}
	t.answerCall(key, tool, args, stubs.From, matching[at])
	return true
}

// answerCall records the result of a call that is not made. from is the task that it was recorded in; "" for none.
func (t turns) answerCall(key, tool string, args json.RawMessage, from string, stub *plan.Stub) {
	switch {
	case stub.Error != nil:
		err := fault.New(fault.Code(stub.Error.Code), "%s", stub.Error.Message)
		err.Hint = stub.Error.Hint
		t.Emit(events.StepFailed, &events.StepError{
			Step: key, Class: fault.ClassToolError, Tool: tool, Args: t.value(args), Purpose: purposeAgent, Error: err,
		})
	case from != "":
		t.Emit(events.StepReused, &events.Reused{Step: key, From: events.TaskID(from), Output: t.value(stub.Output)})
	default:
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: key, Output: t.value(stub.Output)})
	}
}

// onlyReads reports whether no call of a tool changes anything but the log.
func (t turns) onlyReads(tool string) bool {
	found, ok := t.Rules.Catalogue.Get(tool)
	return ok && (found.Spec().Effect == tools.Read && !found.Spec().MayDestroy || found.Spec().LogOnly)
}

// madeBefore counts the calls of the agent before the one with a key that are the same.
func (t turns) madeBefore(key string) (n int) {
	current := t.agent().Last().Requested.Turn
	calls := callsOf(t.said().answer(current).Message)
	i := 0
	for i < len(calls) && statemachine.CallKey(t.step.Key, current, i+1) != key {
		i++
	}
	if i == len(calls) {
		return 0 // its answer is not in memory
	}
	call := calls[i]
	n = same(calls[:i], call)
	for turn := 1; turn < current; turn++ {
		n += same(callsOf(t.said().answer(turn).Message), call)
	}
	return n
}

// same counts the calls with the same tool and arguments as another one.
func same(calls []*models.Call, as *models.Call) (n int) {
	for _, c := range calls {
		if c.Name == as.Name && plan.SameArgs(json.RawMessage(c.Args), json.RawMessage(as.Args)) {
			n++
		}
	}
	return n
}
