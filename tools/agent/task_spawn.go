package agent

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type taskSpawnIn struct {
	SubagentType string `json:"subagent_type" jsonschema:"Agent type to spawn: the name of a template in .orch/agents, of an agent of the configuration, or the name or the role of a registered one" pattern:"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"`
	Prompt       string `json:"prompt" jsonschema:"Task for agent" minLength:"1" maxLength:"1048576"`
	Model        string `json:"model,omitempty" jsonschema:"Model to use" maxLength:"200"`
}

type taskSpawnOut struct {
	TaskID string `json:"task_id" jsonschema:"The child task"`
	Status string `json:"status" jsonschema:"State of the child at its end; if the child fails, the call returns an error" enum:"DONE"`
	Report any    `json:"report" jsonschema:"Final report of the agent: the outputs of its plan, or the output of its command"`
}

// taskSpawn is TASK_SPAWN (S0-180, S0-181, A-48). The tool only determines the child task. The node starts the child
// in the commit that ends the call at the worker, and completes the call when the child ends. A repeated call starts
// no second child, so the tool is idempotent.
func taskSpawn(all []agentSource) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "TASK_SPAWN",
		Title:       "Give a task to an agent",
		Purpose:     "Launch specialized sub-agent for complex task",
		Conditions:  []string{"Any task state", "Sub-task within scope"},
		Example:     `{"subagent_type":"reviewer","prompt":"Look at src/main.go"}`,
		Effect:      tools.Idempotent,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Content:     []string{"prompt"},
		NoWorkspace: true,
		LogOnly:     true,
		Errors:      []string{"NOT_FOUND", "INVALID_PLAN", "QUOTA_EXCEEDED", "FORBIDDEN", "CANCELLED", "SECRET_DETECTED", "VALIDATION_ERROR"},
	}, func(ctx context.Context, env *tools.Env, in taskSpawnIn) (taskSpawnOut, error) {
		child, err := findAgent(ctx, env, all, in.SubagentType)
		if fault.Has(err, fault.NotFound) && in.SubagentType == clientModel {
			return promptClient(env, in, err)
		}
		if err != nil {
			return taskSpawnOut{}, err
		}
		child.Inputs = encode(inputs{in.Prompt, in.Model})
		env.Spawn(child)
		return taskSpawnOut{}, nil
	})
}

// clientModel is the agent type for the language model of the MCP client (S2-051).
const clientModel = "model"

// promptClient answers the prompt with the model of the client. That needs no tools and therefore no child task, so the
// result contains the id of the calling task.
func promptClient(env *tools.Env, in taskSpawnIn, notFound error) (taskSpawnOut, error) {
	report, ok, err := env.Sample("report", in.Prompt)
	switch {
	case err != nil:
		return taskSpawnOut{}, err
	case !ok && !env.Can(events.Sampling):
		return taskSpawnOut{}, fault.From(notFound).WithHint("the agent %q is the model of an MCP client that offers sampling; this task has none", clientModel)
	case !ok:
		return taskSpawnOut{}, fault.New(fault.Cancelled, "the model of the client gave no answer")
	}
	return taskSpawnOut{TaskID: string(env.Task), Status: "DONE", Report: report}, nil
}
