package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type agentTaskIn struct {
	Title       string       `json:"title" jsonschema:"What to do, in one line" minLength:"1" maxLength:"256"`
	Description string       `json:"description,omitempty" jsonschema:"What to do, in full" maxLength:"65536"`
	Data        tools.Object `json:"data,omitzero" jsonschema:"What the agent works on"`
	Requires    []string     `json:"requires,omitempty" jsonschema:"Names of the capabilities that the agent must have" maxItems:"32" minLength:"1" maxLength:"64"`
	Type        string       `json:"type,omitempty" jsonschema:"Role that the agent must have" enum:"researcher,developer,coordinator,analyst,specialist"`
	Agent       string       `json:"agent,omitempty" jsonschema:"Name of the only agent that may execute it" maxLength:"50"`
}

type agentTaskOut struct {
	Agent   string          `json:"agent" jsonschema:"Name of the agent that executed it"`
	Result  json.RawMessage `json:"result,omitempty" jsonschema:"Result: any JSON value"`
	Summary string          `json:"summary,omitempty" jsonschema:"Summary of the outcome, in one line"`
}

// TaskName is the name of the tool for calls that registered agents execute.
const TaskName = "AGENT_TASK"

// agentTask is AGENT_TASK. The policy checks its calls like those of any other tool. Then a matching registered agent
// executes them.
func agentTask() tools.Tool {
	return tools.Define(tools.Spec{
		Name:        TaskName,
		Title:       "Give work to a registered agent",
		Purpose:     "Assign work to a registered agent with the required capabilities, and return its report",
		Conditions:  []string{"Task state: IN_PROGRESS", "A matching agent is registered"},
		Example:     `{"title":"Build the image","requires":["build"],"data":{"ref":"main"}}`,
		Effect:      tools.Write,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		Content:     []string{"title", "description", "data"},
		NoWorkspace: true,
		ForAgents:   true,
		Timeout:     time.Hour,
		Errors:      []string{"TOOL_FAILED", "TIMEOUT", "WORKER_LOST", "IN_DOUBT", "SECRET_DETECTED", "VALIDATION_ERROR"},
	}, func(context.Context, *tools.Env, agentTaskIn) (agentTaskOut, error) {
		return agentTaskOut{}, fault.New(fault.Internal, "calls of %s are executed by agents, not by workers", TaskName)
	})
}
