package agent

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type agentReportIn struct {
	callRef

	Result  json.RawMessage `json:"result,omitempty" jsonschema:"Result of the call: any JSON value except null" types:"object,array,string,number,boolean"`
	Summary string          `json:"summary,omitempty" jsonschema:"Summary of the outcome, in one line; alone it ends the call without a result" maxLength:"1024"`
	Error   string          `json:"error,omitempty" jsonschema:"Why the call failed, or why it is released or handed over" maxLength:"4096"`
	Release bool            `json:"release,omitempty" jsonschema:"Return the call unfinished, to the agents that it was intended for" default:"false"`
	Unsure  bool            `json:"unsure,omitempty" jsonschema:"With release: the call may have changed something, so a person decides unless it is idempotent" default:"false"`
	HandTo  *handTo         `json:"hand_to,omitempty" jsonschema:"Hand the call over to other agents, which start it again; without fields: to the agents that it was intended for"`
	Data    json.RawMessage `json:"data,omitempty" jsonschema:"With hand_to or release: what the next agent needs, at most 64 KiB" types:"object,array,string,number,boolean"`
}

type handTo struct {
	Agent    string   `json:"agent,omitempty" jsonschema:"Name of the only agent that may execute it" maxLength:"50"`
	Type     string   `json:"type,omitempty" jsonschema:"Role that the agent must have" enum:"researcher,developer,coordinator,analyst,specialist"`
	Requires []string `json:"requires,omitempty" jsonschema:"Names of the capabilities that the agent must have" maxItems:"32"`
}

type agentReportOut struct {
	Accepted bool `json:"accepted" jsonschema:"Always true: the report is in the log"`
}

// agentReport returns the tool AGENT_REPORT, which ends a call of a registered agent.
func agentReport(cfg Config) tools.Tool {
	return tools.Define(directSpec(tools.Spec{
		Name:    "AGENT_REPORT",
		Title:   "Report the outcome of a call as a registered agent",
		Purpose: "End a call of the caller: with a result or an error, or by releasing it or handing it over",
		Effect:  tools.Idempotent,
		Errors:  []string{"REQUIRED_FIELD", "INVALID_FORMAT", "APPROVAL_REQUIRED", "CONFLICT", "NOT_FOUND", "UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in agentReportIn) (agentReportOut, error) {
		dispatcher, m, err := cfg.caller(ctx, env)
		if err != nil {
			return agentReportOut{}, err
		}
		if len(in.Result) == 0 && in.Summary == "" && in.Error == "" && !in.Release && in.HandTo == nil {
			return agentReportOut{}, fault.New(fault.RequiredField, "is required").WithField("result").WithHint("or set summary, error, release or hand_to")
		}
		r := agents.Report{Ref: in.ref(), Result: in.Result, Summary: in.Summary, Error: in.Error, Release: in.Release, Unsure: in.Unsure, Data: in.Data}
		if to := in.HandTo; to != nil {
			r.HandTo = &events.Agents{Agent: to.Agent, Type: to.Type, Requires: to.Requires}
		}
		if err := dispatcher.Report(ctx, m, r); err != nil {
			return agentReportOut{}, err
		}
		return agentReportOut{Accepted: true}, nil
	})
}
