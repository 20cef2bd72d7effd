package policy

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Action is what a rule of the policy file does with the calls that it matches.
type Action string

// The actions, the strongest first: deny beats ask, ask beats allow.
const (
	RuleDeny  Action = "deny"
	RuleAsk   Action = "ask"
	RuleAllow Action = "allow"
)

// defaultRule is the name of what holds when no rule matches.
const defaultRule = "default"

// Rules is a policy file. It only tightens: what the node refuses or asks by itself stays so whatever the
// file says, and an allow exempts a call from the default of the file alone. It is immutable.
type Rules struct {
	// File is the name of the file, for messages; an absolute one is protected from changes.
	File string `json:"file"`
	// Default holds for calls that no rule matches; allow leaves them to the gates of the node.
	Default Action `json:"default"`
	// List holds the rules in the order of the file.
	List []Rule `json:"rules"`
}

// Rule matches a call when every criterion that it has does. A criterion is a list of which one has to match.
//
// A deny or ask rule matches when any path, host, command or recipient of the call does, and asks when that cannot be told.
// An allow rule matches when all of them surely do.
type Rule struct {
	// Name is unique in the file.
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
	// Tools are patterns of names of tools, Agents of who submitted the task (user:ada, agent:*).
	Tools []string `json:"tools,omitempty"`
	// Effects are effects of calls.
	Effects []tools.Effect `json:"effects,omitempty"`
	// Paths are globs (with **) of real paths, relative to the root or absolute. One without a slash fits the last
	// element at any depth. A deny or ask rule holds for all below, too.
	Paths []string `json:"paths,omitempty"`
	// Hosts are hosts of endpoints and connections, with a port or without; *.example.com are all below
	// example.com.
	Hosts []string `json:"hosts,omitempty"`
	// Commands are patterns of simple commands, their words joined by single spaces.
	Commands []string `json:"commands,omitempty"`
	Agents   []string `json:"agents,omitempty"`
	// Recipients are patterns of whom a call gives a message or work: agent:NAME, user:NAME, group:NAME, all, and type:TYPE
	// for the agents of a type. Those of a group, or all, may be anybody.
	Recipients []string `json:"recipients,omitempty"`
	// Match and NoMatch are examples that the rule has to match, and those that it must not.
	Match   []Example `json:"match,omitempty"`
	NoMatch []Example `json:"no_match,omitempty"`
}

// Example is a call that a rule is tried with when its file is loaded.
type Example struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Agent string          `json:"agent,omitempty"`
	// At is its place, file:line:col.
	At string `json:"at"`
}

// Verdict is what the policy file says about a call.
type Verdict struct {
	Action Action `json:"action"`
	// Rule is the name of the rule that decides, "default" for the default of the file, empty without a file.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// answer says whether something matches, as far as that is known before the call. Their order counts.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// Judge says what the policy file says about a call, apart from what the node itself refuses and asks. It uses
// Spec, Args, Paths, Intent, Agent and Workspace of the call.
func (p *Policy) Judge(c Call) Verdict {
	if p.rules == nil {
		return Verdict{Action: RuleAllow}
	}
	f := p.facts(c)
	verdict := Verdict{Action: p.rules.Default, Rule: defaultRule, Reason: "no rule matches"}
	for i := range p.rules.List {
		r := &p.rules.List[i]
		found := r.matches(f)
		switch {
		case r.Action == RuleDeny && found == yes:
			return r.verdict(RuleDeny, "")
		case found == no || verdict.asked(), r.Action == RuleAllow && found != yes:
		case found == maybe:
			verdict = r.verdict(RuleAsk, "it cannot be told whether the rule matches")
		case r.Action == RuleAsk:
			verdict = r.verdict(RuleAsk, "")
		case verdict.Rule == defaultRule:
			verdict = r.verdict(RuleAllow, "")
		}
	}
	return verdict
}

// asked reports whether a rule asks, which only a denial outweighs.
func (v Verdict) asked() bool { return v.Action == RuleAsk && v.Rule != defaultRule }

func (r *Rule) verdict(action Action, doubt string) Verdict {
	v := Verdict{Action: action, Rule: r.Name, Reason: r.Reason}
	switch {
	case doubt != "" && v.Reason != "":
		v.Reason = doubt + ": " + v.Reason
	case doubt != "":
		v.Reason = doubt
	}
	return v
}

// facts is what rules see of a call.
type facts struct {
	tool     string
	agent    string
	effect   tools.Effect
	root     string
	paths    []touch
	hosts    []peer
	commands shell.Found
	// recipients are whom the call gives something.
	recipients []recipient
}

func (p *Policy) facts(c Call) facts {
	f := facts{
		tool: c.Spec.Name, agent: c.Agent, effect: p.Effect(c), root: p.root, paths: c.touches(), hosts: peers(c.Intent.Targets),
		recipients: c.recipients(),
	}
	if slices.ContainsFunc(p.rules.List, func(r Rule) bool { return len(r.Commands) > 0 }) {
		f.commands = c.commands()
	}
	return f
}

// matches weighs all criteria that the rule has.
func (r *Rule) matches(f facts) answer {
	all := r.Action == RuleAllow
	result := yes
	for _, criterion := range []struct {
		given bool
		found func() answer
	}{
		{len(r.Tools) > 0, func() answer { return anyFits(r.Tools, f.tool) }},
		{len(r.Effects) > 0, func() answer { return sure(slices.Contains(r.Effects, f.effect)) }},
		{len(r.Agents) > 0, func() answer { return r.byAgent(f.agent) }},
		{len(r.Paths) > 0, func() answer {
			return weigh(all, f.paths, func(t touch) answer { return r.byPath(t, f.root) })
		}},
		{len(r.Hosts) > 0, func() answer { return weigh(all, f.hosts, r.byHost) }},
		{len(r.Commands) > 0, func() answer { return r.byCommand(f.commands) }},
		{len(r.Recipients) > 0, func() answer { return weigh(all, f.recipients, r.byRecipient) }},
	} {
		if result == no {
			return no
		}
		if criterion.given {
			result = min(result, criterion.found())
		}
	}
	return result
}

// weigh is the answer for a list of what a call uses: of all of it, or of any.
func weigh[T any](all bool, items []T, match func(T) answer) answer {
	if len(items) == 0 {
		return no
	}
	result := match(items[0])
	for _, item := range items[1:] {
		if all {
			result = min(result, match(item))
		} else {
			result = max(result, match(item))
		}
	}
	return result
}

func sure(ok bool) answer {
	if ok {
		return yes
	}
	return no
}

// byAgent matches who submitted the task. One that is not known might be any.
func (r *Rule) byAgent(agent string) answer {
	if agent == "" {
		return maybe
	}
	return anyFits(r.Agents, agent)
}

// denied is the error of a call that the policy file denies.
func (p *Policy) denied(c Call) error { return p.Judge(c).denial(c.Spec.Name) }

// denial is the error of a verdict that denies a call of a tool; nil for any other.
func (v Verdict) denial(tool string) error {
	if v.Action != RuleDeny {
		return nil
	}
	return fault.New(fault.Forbidden, "%s", v.says(tool, "denies")).WithReason("POLICY_DENIED").
		WithHint("no approval lifts this; see: orch policy show")
}

func (v Verdict) says(tool, verb string) string {
	text := "the rule " + v.Rule + " of the policy file " + verb + " " + tool
	if v.Rule == defaultRule {
		text = "the default of the policy file " + verb + " " + tool
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

// tighten adds what the policy file asks to what the node asks by itself. The grant is then good for this call
// alone, and nothing beside it is offered, since the file asks every time.
func (p *Policy) tighten(c Call, ask *Ask) *Ask {
	v := p.Judge(c)
	if v.Action != RuleAsk {
		return ask
	}
	merged := Ask{Type: PreExecution, Risk: "medium", Reason: v.says(c.Spec.Name, "asks for")}
	if ask != nil {
		merged = *ask
		merged.Reason, merged.Scopes, merged.Offers = ask.Reason+"; "+v.says(c.Spec.Name, "asks for"), nil, nil
	}
	merged.Rule = "policy:" + v.Rule
	return &merged
}

// lets reports whether the policy file lets a call reach one more target than those of its intent, such as the
// goal of a redirect. What the call itself was judged by does not count again, unless it is about hosts.
func (p *Policy) lets(c Call, t tools.Target) bool {
	if p.rules == nil {
		return true
	}
	own := p.Judge(c)
	c.Intent.Targets = []tools.Target{t}
	v := p.Judge(c)
	if v.Action == RuleAllow {
		return true
	}
	return v == own && !slices.ContainsFunc(p.rules.List, func(r Rule) bool { return r.Name == v.Rule && len(r.Hosts) > 0 }) &&
		v.Action != RuleDeny
}
