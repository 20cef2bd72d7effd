package agent

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

type agentHeartbeatIn struct {
	Calls []callHeartbeat `json:"calls,omitempty" jsonschema:"All calls that the agent has now" maxItems:"1000"`
	Error string          `json:"error,omitempty" jsonschema:"What is wrong with the agent; left out when nothing is" maxLength:"4096"`
}

type callHeartbeat struct {
	callRef

	Progress *callProgress `json:"progress,omitempty" jsonschema:"How far the call is"`
}

type callProgress struct {
	Done    float64 `json:"done" jsonschema:"How much is done"`
	Total   float64 `json:"total,omitempty" jsonschema:"How much there is to do, when that is known"`
	Message string  `json:"message,omitempty" jsonschema:"What is being done" maxLength:"1024"`
}

type agentHeartbeatOut struct {
	Stop []callRef `json:"stop" jsonschema:"Calls to end without a report: they were cancelled, took too long, or are somebody else's now"`
}

// agentHeartbeat is AGENT_HEARTBEAT.
func agentHeartbeat(cfg Config) tools.Tool {
	return tools.Define(directSpec(tools.Spec{
		Name:    "AGENT_HEARTBEAT",
		Title:   "Say that a registered agent is there",
		Purpose: "Say that the caller is there and keep the calls that it has, with their progress, and hear which of them to stop",
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
