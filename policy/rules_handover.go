package policy

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Handover is a call that its agent hands over to other agents.
type Handover struct {
	// Spec is the contract of the tool.
	Spec tools.Spec
	// Requester is the submitter, as in Call.Agent. By is the agent that hands the call over.
	Requester, By string
	// From selects the agents that may claim the call now. To selects the agents that may claim it after the handover.
	From, To events.Agents
}

// CheckHandover returns why a call must not be handed over: FORBIDDEN with the reason POLICY_DENIED when the policy
// file denies it, APPROVAL_REQUIRED when it asks. The handover is evaluated as the original call and again as a call of
// the agent: an agent that must not assign work to others must not do so with a call that it received. A rule that
// asked about the original call is not applied again if From already selects all agents that To selects, because each
// of them could have claimed the call.
func (p *Policy) CheckHandover(h Handover) error {
	if p.rules == nil {
		return nil
	}
	args, err := json.Marshal(h.To)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the selection cannot be encoded")
	}
	original := p.EvaluateRules(&Call{Spec: &h.Spec, Args: args, Agent: h.Requester})
	verdicts := []Verdict{original, p.EvaluateRules(&Call{Spec: &h.Spec, Args: args, Agent: h.By})}
	for _, v := range verdicts {
		if err := v.denial(h.Spec.Name); err != nil {
			return fault.From(err).WithField("hand_to")
		}
	}
	for _, v := range verdicts {
		alreadyAsked := original.Action == RuleAsk && original.Rule == v.Rule && narrows(h.To, h.From)
		if v.Action == RuleAsk && !alreadyAsked {
			return fault.New(fault.ApprovalRequired, "%s, and nobody can be asked when a call is handed on", v.sentence(h.Spec.Name, "asks for")).
				WithReason("policy:" + v.Rule).WithField("hand_to").
				WithHint("name the agent and its type, if the rule is about others; else release the call, or let a person give them the work")
		}
	}
	return nil
}

// narrows reports whether every agent that to selects is also selected by from.
func narrows(to, from events.Agents) bool {
	return (from.Agent == "" || from.Agent == to.Agent) && (from.Type == "" || from.Type == to.Type) &&
		!slices.ContainsFunc(from.Requires, func(c string) bool { return !slices.Contains(to.Requires, c) })
}
