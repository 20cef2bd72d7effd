package agent

import (
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

type agentClaimIn struct {
	WaitSeconds int       `json:"wait_seconds,omitempty" jsonschema:"How long to wait for a call when there is none" default:"20" minimum:"0" maximum:"30"`
	Free        int       `json:"free,omitempty" jsonschema:"How many more calls to take" default:"1" minimum:"1" maximum:"1000"`
	Has         []callRef `json:"has,omitempty" jsonschema:"All calls that the agent has now. One that it was given and has never named comes again, in case that the answer was lost; one that it has named and does not name now is lost" maxItems:"1000"`
}

type agentClaimOut struct {
	Calls []callOut `json:"calls" jsonschema:"What to do now; each ends with AGENT_REPORT"`
	Stop  []callRef `json:"stop" jsonschema:"Calls to end without a report: they were cancelled, or are somebody else's now"`
}

// agentClaim is AGENT_CLAIM.
func agentClaim(cfg Config) tools.Tool {
	return tools.Define(directSpec(tools.Spec{
		Name:    "AGENT_CLAIM",
		Title:   "Take work as a registered agent",
		Purpose: "Ask for calls of AGENT_TASK that are for agents like the caller, maybe after a wait; name them with AGENT_HEARTBEAT before beginning them, and as often as their lease demands",
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
