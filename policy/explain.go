package policy

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Imagined is a call that nobody makes. Explain tells what a policy would decide about it.
type Imagined struct {
	Tool string
	// Args are the arguments, a JSON object; nil for none. Paths may be relative to the root.
	Args json.RawMessage
	// Agent is the identity that would submit the task, such as user:ada; empty if it is unknown.
	Agent string
	// Task is the task in whose workspace the call would run; empty for a task of its own.
	Task events.TaskID
}

// Explanation is what a policy would decide about an imagined call.
type Explanation struct {
	// Action is allow if the call would run, ask if it would need an approval first, and deny if it would be refused.
	Action Action       `json:"action"`
	Effect tools.Effect `json:"effect"`
	// File is the verdict of the policy file alone, and Matches are its rules that match the call or may match it.
	File    Verdict `json:"file"`
	Matches []Match `json:"matches"`
	// Ask is the approval that the call would need. Refused is why it would be refused.
	Ask     *Ask         `json:"ask,omitempty"`
	Refused *fault.Error `json:"refused,omitempty"`
	// Announces is set if the tool determines the targets of a call when the call runs. They are unknown here, except for the
	// URLs among the arguments.
	Announces bool `json:"announces,omitempty"`
}

// Match is a rule that matches a call.
type Match struct {
	Rule   string `json:"rule"`
	Action Action `json:"action"`
	Line   int    `json:"line"`
	// Unsure is set if it cannot be told before the call whether the rule matches.
	Unsure bool `json:"unsure,omitempty"`
}

// Explain returns what the policy would decide about a call. It has no effect. It judges paths as they are written, without
// following links. Errors are NOT_FOUND for an unknown tool, and those of tools.Tool.Check with the field below args.
func (p *Policy) Explain(catalogue *tools.Catalogue, in Imagined) (Explanation, error) {
	tool, ok := catalogue.Get(in.Tool)
	if !ok {
		missing := fault.New(fault.NotFound, "there is no such tool").WithField("tool")
		if near := catalogue.Suggest(in.Tool); near != "" {
			return Explanation{}, missing.WithHint("did you mean %s?", near)
		}
		return Explanation{}, missing.WithHint("see: orch tools list")
	}
	args := in.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	args, err := tool.Check(p.fromRoot(tool.Spec(), args))
	if err != nil {
		return Explanation{}, belowArgs(err)
	}
	call := p.CallFromLog(tool.Spec(), in.Task, args, in.Agent)
	if own, ok := tool.(tools.Effecter); ok {
		call.Intent.Effect = own.EffectOf(args)
	}
	_, announces := tool.(tools.Intender)
	return p.explain(call, announces), nil
}

// belowArgs names the arguments as the place of an error.
func belowArgs(err error) error {
	e := fault.From(err)
	if e.Field == "" {
		return e.WithField("args")
	}
	return e.WithField("args." + e.Field)
}

func (p *Policy) explain(c *Call, announces bool) Explanation {
	e := Explanation{Action: RuleAllow, Effect: p.Effect(c), File: p.EvaluateRules(c), Matches: p.matching(c), Announces: announces}
	ask, err := p.Decide(c)
	switch {
	case err != nil:
		e.Action, e.Refused = RuleDeny, fault.From(err)
	case ask != nil:
		e.Action, e.Ask = RuleAsk, ask
	}
	return e
}

// matching returns the rules of the policy file that match a call or may match it, in file order.
func (p *Policy) matching(c *Call) []Match {
	all := []Match{}
	if p.rules == nil {
		return all
	}
	f := p.facts(c)
	for i := range p.rules.List {
		r := &p.rules.List[i]
		if match := r.matches(f); match != no {
			all = append(all, Match{r.Name, r.Action, r.Line, match == maybe})
		}
	}
	return all
}
