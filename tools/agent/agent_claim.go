package agent

import (
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

type agentClaimIn struct {
	WaitSeconds int       `json:"wait_seconds,omitempty" jsonschema:"Maximum time to wait for a call when there is none, in seconds" default:"20" minimum:"0" maximum:"30"`
	Free        int       `json:"free,omitempty" jsonschema:"Maximum number of new calls to return" default:"1" minimum:"1" maximum:"1000"`
	Has         []callRef `json:"has,omitempty" jsonschema:"All calls that the agent is working on. A call that was assigned to the agent and that the agent has never listed is returned again, because the answer may have been lost. A call that the agent has listed before and does not list now counts as lost" maxItems:"1000"`
}

type agentClaimOut struct {
	Calls []callOut `json:"calls" jsonschema:"New calls for the agent; it ends each with AGENT_REPORT"`
	Stop  []callRef `json:"stop" jsonschema:"Calls to stop without a report: they were cancelled or reassigned"`
}

// agentClaim returns the tool AGENT_CLAIM, which assigns calls to a registered agent.
func agentClaim(cfg Config) tools.Tool {
	return tools.Define(directSpec(tools.Spec{
		Name:    "AGENT_CLAIM",
		Title:   "Claim work as a registered agent",
		Purpose: "Claim calls of AGENT_TASK that the caller may execute, waiting for them if requested; list them in AGENT_HEARTBEAT before starting them, and often enough to keep their leases",
		Effect:  tools.Write,
		Errors:  []string{"UNAVAILABLE", "CANCELLED"},
	}), func(ctx context.Context, env *tools.Env, in agentClaimIn) (agentClaimOut, error) {
		dispatcher, m, err := cfg.caller(ctx, env)
		if err != nil {
			return agentClaimOut{}, err
		}
		current := make([]work.Ref, len(in.Has))
		for i, r := range in.Has {
			current[i] = r.ref()
		}
		got, err := dispatcher.Claim(ctx, m, agents.Claim{Free: in.Free, Wait: time.Duration(in.WaitSeconds) * time.Second, Has: current})
		if err != nil {
			return agentClaimOut{}, err
		}
		calls, err := callOuts(got.Calls)
		return agentClaimOut{Calls: calls, Stop: callRefs(got.Stop)}, err
	})
}
