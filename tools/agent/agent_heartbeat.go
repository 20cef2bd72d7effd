package agent

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

type agentHeartbeatIn struct {
	Calls []callHeartbeat `json:"calls,omitempty" jsonschema:"All calls that the agent is working on" maxItems:"1000"`
	Error string          `json:"error,omitempty" jsonschema:"Why the agent cannot work; omitted when it can" maxLength:"4096"`
}

type callHeartbeat struct {
	callRef

	Progress *callProgress `json:"progress,omitempty" jsonschema:"Progress of the call"`
}

type callProgress struct {
	Done    float64 `json:"done" jsonschema:"Amount of work done"`
	Total   float64 `json:"total,omitempty" jsonschema:"Total amount of work, if known"`
	Message string  `json:"message,omitempty" jsonschema:"Current activity" maxLength:"1024"`
}

type agentHeartbeatOut struct {
	Stop []callRef `json:"stop" jsonschema:"Calls to stop without a report: they were cancelled, timed out or were reassigned"`
}

// agentHeartbeat returns the tool AGENT_HEARTBEAT, which renews the leases of the calls of a registered agent.
func agentHeartbeat(cfg Config) tools.Tool {
	return tools.Define(directSpec(tools.Spec{
		Name:    "AGENT_HEARTBEAT",
		Title:   "Send a heartbeat of a registered agent",
		Purpose: "Send a heartbeat: report the calls of the caller and their progress, renew their leases, and return the calls to stop",
		Effect:  tools.Idempotent,
		Errors:  []string{"UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in agentHeartbeatIn) (agentHeartbeatOut, error) {
		dispatcher, m, err := cfg.caller(ctx, env)
		if err != nil {
			return agentHeartbeatOut{}, err
		}
		b := agents.Heartbeat{Error: in.Error}
		for _, c := range in.Calls {
			p := work.CallHeartbeat{Ref: c.ref()}
			if c.Progress != nil {
				p.Progress = &work.Progress{Done: c.Progress.Done, Total: c.Progress.Total, Message: c.Progress.Message}
			}
			b.Calls = append(b.Calls, p)
		}
		got, err := dispatcher.Heartbeat(ctx, m, b)
		return agentHeartbeatOut{Stop: callRefs(got.Stop)}, err
	})
}
