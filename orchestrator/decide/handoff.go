package decide

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// spawnTool is the tool that a handoff calls.
	spawnTool = "TASK_SPAWN"
	// maxHandoffs limits how often an agent lets others take over, after failures or at once. Without it, agents that hand over to each
	// other until their tasks nest too deeply would try again at each level, in each turn.
	maxHandoffs = 3
)

// handoff returns the tool with which a model lets another agent take over.
func handoff(agents []string) offeredTool {
	return offeredTool{Tool: models.Tool{
		Name: plan.HandoffTool, Description: "Let another agent take over. Its report is the final answer; you are not asked again",
		Schema: MustJSON(map[string]any{
			"type": "object", "required": []string{"to", "message"}, "additionalProperties": false,
			"properties": map[string]any{
				"to":      map[string]any{"type": "string", "enum": agents, "description": "The agent"},
				"message": map[string]any{"type": "string", "minLength": 1, "description": "What it has to know: what is done, what is found, what is left"},
			},
		}),
	}}
}

// handOver makes the call ready with which another agent takes over: it starts a task of that agent.
func (t turns) handOver(key string, args json.RawMessage) {
	var in struct {
		To      string `json:"to"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(args, &in)
	switch {
	case err != nil || in.Message == "":
		t.deny(key, plan.HandoffTool, string(args), fault.New(fault.ValidationError, "it takes the name of an agent and a message"))
	case !slices.Contains(t.node.Agent.Handoff, in.To):
		t.deny(key, plan.HandoffTool, string(args), fault.New(fault.NotFound, "no agent %q may take over", brief(in.To)).WithField("to").
			WithHint("those that may are %v", t.node.Agent.Handoff))
	case !MayCall(t.Task.Submitted.Tools, spawnTool):
		t.deny(key, plan.HandoffTool, string(args), fault.New(fault.Forbidden, "the task may not call %s", spawnTool))
	case t.recorded(key, plan.HandoffTool, args):
	case t.handoffs() >= maxHandoffs:
		t.deny(key, plan.HandoffTool, string(args), fault.New(fault.QuotaExceeded, "other agents have taken over %d times, the limit", maxHandoffs).
			WithHint("do the work, or give the final answer"))
	default:
		prompt := "You take over from another agent. What it was asked to do:\n\n" + t.text(t.agent().Spec.Prompt) + "\n\nWhat it says:\n\n" + in.Message
		t.callTool(key, spawnTool, MustJSON(map[string]any{"subagent_type": in.To, "prompt": prompt}))
	}
}

// handoffs counts the calls by which other agents have taken over so far, or have tried to.
func (t turns) handoffs() (n int) {
	for turn := range t.agent().Last().Requested.Turn {
		for i, call := range callsOf(t.said().answer(turn + 1).Message) {
			s := t.Task.Steps[statemachine.CallKey(t.step.Key, turn+1, i+1)]
			if call.Name == plan.HandoffTool && s != nil && s.Tool == spawnTool {
				n++
			}
		}
	}
	return n
}

// takenOver returns the call of the newest turn by which another agent has taken over and done the work; nil if there is none.
func (t turns) takenOver() *statemachine.Step {
	last := t.agent().Last()
	if len(t.node.Agent.Handoff) == 0 || last.Answered == nil {
		return nil
	}
	for i, call := range callsOf(t.said().answer(last.Requested.Turn).Message) {
		s := t.Task.Steps[statemachine.CallKey(t.step.Key, last.Requested.Turn, i+1)]
		if call.Name == plan.HandoffTool && s != nil && s.State == statemachine.StepSucceeded {
			return s
		}
	}
	return nil
}

// finishFor ends the step with the report of the agent that has taken over.
func (t turns) finishFor(taken *statemachine.Step) {
	var out struct {
		Report json.RawMessage `json:"report"`
	}
	raw := t.Fetch(taken.Output)
	if t.stopped() {
		return
	}
	if err := t.OutcomeOf(json.Unmarshal(raw, &out)); err != nil {
		t.fail(fault.From(err), fault.ClassToolError)
		return
	}
	if t.node.Agent.Result == nil {
		t.succeed(shown(out.Report), nil)
		return
	}
	if err := t.node.Agent.CheckResult(out.Report); err != nil {
		t.fail(fault.New(fault.InvalidFormat, "the agent that took over in step %s gives no result of the requested form: %s", taken.Key, fault.From(err).Sentence()), fault.ClassUnexpected)
		return
	}
	t.succeed(shown(out.Report), out.Report)
}
