package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Action is the action of a rule of the policy file for the calls that it matches.
type Action string

// The actions, strongest first: deny overrides ask, ask overrides allow.
const (
	RuleDeny  Action = "deny"
	RuleAsk   Action = "ask"
	RuleAllow Action = "allow"
)

// defaultRule is the rule name in verdicts when no rule matches.
const defaultRule = "default"

// Rules is a policy file. It can only restrict: it cannot permit a call that the node itself refuses, and it cannot
// skip an approval that the node requires. An allow rule only exempts a call from the default of the file. Rules is
// immutable.
type Rules struct {
	// File is the name of the file, for messages. A file with an absolute name is protected from changes.
	File string `json:"file"`
	// Default applies to calls that no rule matches; allow leaves them to the other checks of the node.
	Default Action `json:"default"`
	// List contains the rules in file order.
	List []Rule `json:"rules"`
	// Text is the file as it was read.
	Text string `json:"-"`
}

// Digest returns the SHA-256 of the text of the file, in hex.
func (r *Rules) Digest() string {
	sum := sha256.Sum256([]byte(r.Text))
	return hex.EncodeToString(sum[:])
}

// Rule matches a call when all of its criteria match. A criterion is a list; it matches when one of its entries does.
//
// A deny or ask rule matches when any path, host, command or recipient of the call matches. If that cannot be
// determined, the rule asks. An allow rule matches only when all of them certainly match.
type Rule struct {
	// Name is unique in the file.
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Line is the line of the file at which the rule begins.
	Line int `json:"line"`
	// Reason explains the rule to people.
	Reason string `json:"reason,omitempty"`
	// Tools are patterns of tool names. Agents are patterns of submitters (user:ada, agent:*).
	Tools []string `json:"tools,omitempty"`
	// Effects are effects of calls.
	Effects []tools.Effect `json:"effects,omitempty"`
	// Paths are globs (with **) of real paths, relative to the root or absolute. A glob without a slash matches the
	// last element at any depth. A deny or ask rule also matches everything below.
	Paths []string `json:"paths,omitempty"`
	// Hosts are hosts of endpoints and connections, with or without a port; *.example.com matches all hosts below
	// example.com.
	Hosts []string `json:"hosts,omitempty"`
	// Commands are patterns of simple commands, their words joined by single spaces.
	Commands []string `json:"commands,omitempty"`
	Agents   []string `json:"agents,omitempty"`
	// Recipients are patterns of the recipients of a message or of work: agent:NAME, user:NAME, group:NAME, all, and
	// type:TYPE for the agents of a type. The members of a group, and of all, are unknown.
	Recipients []string `json:"recipients,omitempty"`
	// Match are examples that the rule must match, NoMatch examples that it must not match.
	Match   []Example `json:"match,omitempty"`
	NoMatch []Example `json:"no_match,omitempty"`
}

// Example is a call with which a rule is tested when its file is loaded.
type Example struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Agent string          `json:"agent,omitempty"`
	// At is its position, file:line:col.
	At string `json:"at"`
}

// Verdict is the result of evaluating the policy file for a call.
type Verdict struct {
	Action Action `json:"action"`
	// Rule is the name of the deciding rule, "default" for the default of the file, or "" without a file.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// answer is the result of a match. maybe means that the result depends on facts that are unknown before the call. The
// order of the constants matters for min and max.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// EvaluateRules evaluates the policy file for a call, independently of the checks of the node itself. It uses Spec,
// Args, Paths, Intent, Agent and Workspace of the call.
func (p *Policy) EvaluateRules(c *Call) Verdict {
	if p.rules == nil {
		return Verdict{Action: RuleAllow}
	}
	f := p.facts(c)
	verdict := Verdict{Action: p.rules.Default, Rule: defaultRule, Reason: "no rule matches"}
	for i := range p.rules.List {
		r := &p.rules.List[i]
		match := r.matches(f)
		switch {
		case r.Action == RuleDeny && match == yes:
			return r.verdict(RuleDeny, "")
		case match == no || verdict.ruleAsks(), r.Action == RuleAllow && match != yes:
		case match == maybe:
			verdict = r.verdict(RuleAsk, "it cannot be told whether the rule matches")
		case r.Action == RuleAsk:
			verdict = r.verdict(RuleAsk, "")
		case verdict.Rule == defaultRule:
			verdict = r.verdict(RuleAllow, "")
		}
	}
	return verdict
}

// ruleAsks reports whether a rule asks. Only a denial overrides that.
func (v Verdict) ruleAsks() bool { return v.Action == RuleAsk && v.Rule != defaultRule }

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

// facts are the properties of a call that rules match.
type facts struct {
	tool     string
	agent    string
	effect   tools.Effect
	root     string
	paths    []pathAccess
	hosts    []peer
	commands shell.Found
	// recipients are the recipients of the call's message or work.
	recipients []recipient
}

func (p *Policy) facts(c *Call) facts {
	f := facts{
		tool: c.Spec.Name, agent: c.Agent, effect: p.Effect(c), root: p.root, paths: c.accesses(), hosts: peers(c.Intent.Targets),
		recipients: c.recipients(),
	}
	if slices.ContainsFunc(p.rules.List, func(r Rule) bool { return len(r.Commands) > 0 }) {
		f.commands = c.commands()
	}
	return f
}

// matches returns the combined answer of all criteria of the rule.
func (r *Rule) matches(f facts) answer {
	all := r.Action == RuleAllow
	result := yes
	for _, criterion := range []struct {
		isSet bool
		match func() answer
	}{
		{len(r.Tools) > 0, func() answer { return matchAny(r.Tools, f.tool) }},
		{len(r.Effects) > 0, func() answer { return answerOf(slices.Contains(r.Effects, f.effect)) }},
		{len(r.Agents) > 0, func() answer { return r.byAgent(f.agent) }},
		{len(r.Paths) > 0, func() answer {
			return combine(all, f.paths, func(t pathAccess) answer { return r.byPath(t, f.root) })
		}},
		{len(r.Hosts) > 0, func() answer { return combine(all, f.hosts, r.byHost) }},
		{len(r.Commands) > 0, func() answer { return r.byCommand(f.commands) }},
		{len(r.Recipients) > 0, func() answer { return combine(all, f.recipients, r.byRecipient) }},
	} {
		if result == no {
			return no
		}
		if criterion.isSet {
			result = min(result, criterion.match())
		}
	}
	return result
}

// combine returns the answer for a list: whether all items match, or whether any item does. An empty list does not
// match.
func combine[T any](all bool, items []T, match func(T) answer) answer {
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

func answerOf(ok bool) answer {
	if ok {
		return yes
	}
	return no
}

// byAgent returns whether the Agents patterns of the rule match the submitter of the task; maybe if the submitter is
// unknown.
func (r *Rule) byAgent(agent string) answer {
	if agent == "" {
		return maybe
	}
	return matchAny(r.Agents, agent)
}

// checkRules returns FORBIDDEN for a call that the policy file denies.
func (p *Policy) checkRules(c *Call) error { return p.EvaluateRules(c).denial(c.Spec.Name) }

// denial returns FORBIDDEN for a verdict that denies a call of a tool, or nil.
func (v Verdict) denial(tool string) error {
	if v.Action != RuleDeny {
		return nil
	}
	return fault.New(fault.Forbidden, "%s", v.sentence(tool, "denies")).WithReason("POLICY_DENIED").
		WithHint("no approval lifts this; see: orch policy show")
}

func (v Verdict) sentence(tool, verb string) string {
	text := "the rule " + v.Rule + " of the policy file " + verb + " " + tool
	if v.Rule == defaultRule {
		text = "the default of the policy file " + verb + " " + tool
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

// addRulesAsk merges the request of the policy file with the request of the node. The grant is then valid only for this
// call and offers no scopes, because the file asks every time.
func (p *Policy) addRulesAsk(c *Call, ask *Ask) *Ask {
	v := p.EvaluateRules(c)
	if v.Action != RuleAsk {
		return ask
	}
	merged := Ask{Type: PreExecution, Risk: "medium", Reason: v.sentence(c.Spec.Name, "asks for")}
	if ask != nil {
		merged = *ask
		merged.Reason, merged.Scopes, merged.Offers = ask.Reason+"; "+v.sentence(c.Spec.Name, "asks for"), nil, nil
	}
	merged.Rule = "policy:" + v.Rule
	return &merged
}

// rulesAllow reports whether the policy file permits a target that is not in the call's intent, such as the target of a
// redirect. The rule that decided about the call itself does not count again, unless it is about hosts.
func (p *Policy) rulesAllow(c *Call, t tools.Target) bool {
	if p.rules == nil {
		return true
	}
	own, other := p.EvaluateRules(c), *c
	other.Intent.Targets = []tools.Target{t}
	v := p.EvaluateRules(&other)
	if v.Action == RuleAllow {
		return true
	}
	return v == own && !slices.ContainsFunc(p.rules.List, func(r Rule) bool { return r.Name == v.Rule && len(r.Hosts) > 0 }) &&
		v.Action != RuleDeny
}
