package policy

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// HandOn is a call that the agent which has it leaves to others.
type HandOn struct {
	// Spec is the contract of the tool.
	Spec tools.Spec
	// Requester is who the call was made for, as Call.Agent; By is the agent that hands it on.
	Requester, By string
	// From are the agents that the call is for, To those that it shall be for.
	From, To events.Agents
}

// HandOn returns why a call must not be handed on: FORBIDDEN with the reason POLICY_DENIED when the policy file denies it
// the work for those agents, APPROVAL_REQUIRED when it asks. It is judged as the call was, and once more as one of the
// agent: who must not give somebody work does not do so with the work of others. A rule that asked about the call when it was
// let through does not count for agents that it was for, because any of those could have taken it since.
func (p *Policy) HandOn(h HandOn) error {
	if p.rules == nil {
		return nil
	}
	args, err := json.Marshal(h.To)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the selection cannot be encoded")
	}
	asked := p.Judge(Call{Spec: h.Spec, Args: args, Agent: h.Requester})
	verdicts := []Verdict{asked, p.Judge(Call{Spec: h.Spec, Args: args, Agent: h.By})}
	for _, v := range verdicts {
		if err := v.denial(h.Spec.Name); err != nil {
			return fault.From(err).WithField("hand_to")
		}
	}
	for _, v := range verdicts {
		again := asked.Action == RuleAsk && asked.Rule == v.Rule && narrows(h.To, h.From)
		if v.Action == RuleAsk && !again {
			return fault.New(fault.ApprovalRequired, "%s, and nobody can be asked when a call is handed on", v.says(h.Spec.Name, "asks for")).
				WithReason("policy:" + v.Rule).WithField("hand_to").
				WithHint("name the agent and its type, if the rule is about others; else release the call, or let a person give them the work")
		}
	}
	return nil
}

// narrows reports whether all agents of a selection are among those of another one.
func narrows(to, from events.Agents) bool {
	return (from.Agent == "" || from.Agent == to.Agent) && (from.Type == "" || from.Type == to.Type) &&
		!slices.ContainsFunc(from.Requires, func(c string) bool { return !slices.Contains(to.Requires, c) })
}
