package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/orch-dev/orch/fault"
)

// This file implements steps with `switch`. The steps of its cases are siblings of the switch: they have keys, needs
// and results like the other steps of the list. Each is skipped unless the switch chooses its case.

// branch is the switch case that contains a step.
type branch struct {
	owner *Step
	name  string
	// isDefault is true for the steps of `default`.
	isDefault bool
}

// switchFields returns the parsers of the fields of a switch step, by name.
func (l *loader) switchFields(s *Step, nesting int) map[string]func(cursor) {
	return map[string]func(cursor){
		"switch": func(c cursor) { s.Switch = c.expression() },
		"cases": func(c cursor) {
			s.Cases = map[string][]*Step{}
			for _, p := range c.pairs() {
				s.Cases[p.key] = l.branch(p.value, nesting, branch{owner: s, name: p.key})
			}
			if len(s.Cases) == 0 {
				c.report("switch needs at least one case", "such as `cases: {prod: [...], test: [...]}`")
			}
		},
		"default": func(c cursor) {
			s.Default = l.branch(c, nesting, branch{owner: s, isDefault: true})
		},
	}
}

// branch parses the steps of a case.
func (l *loader) branch(c cursor, nesting int, b branch) []*Step {
	steps := l.list(c, nesting)
	for _, s := range steps {
		s.branch = &b
	}
	return steps
}

// unfold returns the steps with the steps of switch cases, which follow their switch.
func unfold(steps []*Step) []*Step {
	var all []*Step
	for _, s := range steps {
		all = append(all, s)
		for _, name := range sortedKeys(s.Cases) {
			all = append(all, unfold(s.Cases[name])...)
		}
		all = append(all, unfold(s.Default)...)
	}
	return all
}

// inner returns the steps directly inside a step: those of `do`, and those of the cases of a switch.
func (s *Step) inner() []*Step {
	all := slices.Concat(s.Do, s.Default)
	for _, name := range sortedKeys(s.Cases) {
		all = append(all, s.Cases[name]...)
	}
	return all
}

// within reports whether a step is in a case of the switch id, directly or in a nested switch.
func (s *Step) within(id string) bool {
	for b := s.branch; b != nil; b = b.owner.branch {
		if b.owner.ID == id {
			return true
		}
	}
	return false
}

// excludes reports whether two steps never both run, because they are in different cases of a switch.
func (s *Step) excludes(other *Step) bool {
	for a := s.branch; a != nil; a = a.owner.branch {
		for b := other.branch; b != nil; b = b.owner.branch {
			if a.owner == b.owner {
				return a.name != b.name || a.isDefault != b.isDefault
			}
		}
	}
	return false
}

// branchNeeds adds the needs implied by switches: the steps of a case need their switch, and a step outside of the
// cases that needs a switch also needs the steps of its cases.
func (l *linker) branchNeeds(nodes []*Node) {
	cases := map[string][]*Node{} // the nodes of the cases of each switch
	for _, n := range nodes {
		if n.branch != nil {
			cases[n.branch.owner.ID] = append(cases[n.branch.owner.ID], n)
		}
	}
	total := 0
	for _, n := range nodes {
		if len(cases) > 0 {
			n.addBranchNeeds(cases)
		}
		if total += len(n.Needs); total > MaxNeeds {
			l.stepLocations[n.Step].report(fmt.Sprintf("the steps of the plan have more than %d needs", MaxNeeds),
				"let steps need one step that stands for many, such as a `set` after them")
			return
		}
	}
}

// addBranchNeeds adds the needs that the switches of a list imply for one step.
func (n *Node) addBranchNeeds(cases map[string][]*Node) {
	needed := boolSet(n.Needs)
	if n.branch != nil {
		needed[n.branch.owner.ID] = true
	}
	for queue := sortedKeys(needed); len(queue) > 0; queue = queue[1:] {
		if len(cases[queue[0]]) == 0 || n.within(queue[0]) {
			continue
		}
		for _, other := range cases[queue[0]] {
			if !needed[other.ID] {
				needed[other.ID] = true
				queue = append(queue, other.ID)
			}
		}
	}
	n.Needs = union(nil, needed)
}

// checkExclusive reports needs between steps that never both run.
func (l *linker) checkExclusive(nodes []*Node) {
	byID := index(nodes)
	for _, n := range nodes {
		for _, id := range n.Needs {
			if other := byID[id]; other != nil && n.excludes(other.Step) {
				l.stepLocations[n.Step].report(fmt.Sprintf("the step needs %q, which is in another case of the same switch", id), "only one case runs")
			}
		}
	}
}

// checkCases checks the cases against the shape of the value. Each case must be a possible value, and an input with an
// enum must have a case for each value.
func (l *linker) checkCases(s *Step, at location, value *shape) {
	listed := l.enumOf(s.Switch)
	words := listed
	if value = value.resolve(); words == nil && value != nil && !slices.ContainsFunc(value.kinds, func(kind string) bool { return kind != "string" }) {
		words = value.words
	}
	for _, name := range sortedKeys(s.Cases) {
		if words != nil && !slices.Contains(words, name) {
			here := at.field("cases").field(name)
			here.report(fmt.Sprintf("`%s` is never %s", s.Switch, quote(name)), here.suggestWord(name, words))
		}
	}
	for _, word := range listed {
		if _, ok := s.Cases[word]; !ok && s.Default == nil {
			at.field("switch").report("there is no case for "+quote(word), "add one, or a `default`")
		}
	}
}

// enumOf returns the values of an input with an enum, as strings; nil for any other expression.
func (l *linker) enumOf(source string) []string {
	tree, err := parser.Parse(source)
	if err != nil || l.inputs.schema == nil {
		return nil
	}
	member, ok := tree.Node.(*ast.MemberNode)
	if !ok {
		return nil
	}
	root, _ := member.Node.(*ast.IdentifierNode)
	name, _ := member.Property.(*ast.StringNode)
	if root == nil || root.Value != rootInputs || name == nil {
		return nil
	}
	property := l.inputs.schema.Properties[name.Value]
	switch {
	case property == nil || property.Default == nil && !slices.Contains(l.inputs.required, name.Value):
		return nil
	case property.Enum != nil:
		return caseNames(property.Enum.Values)
	case property.Types != nil && slices.Equal(property.Types.ToStrings(), []string{"boolean"}):
		return []string{"false", "true"}
	default:
		return nil
	}
}

// caseNames returns values as names of cases; nil when one of them cannot be a case.
func caseNames(values []any) []string {
	var all []string
	for _, v := range values {
		text, err := toText(v)
		if err != nil {
			return nil
		}
		all = append(all, text)
	}
	return all
}

// Chosen is the output of a switch.
type Chosen struct {
	// Case is the value of the switch. Default is true when no case matches it.
	Case    string `json:"case"`
	Default bool   `json:"default"`
}

// Choose evaluates a switch and returns the output of the step. It returns VALIDATION_ERROR when there is neither a
// matching case nor a default.
func (n *Node) Choose(sc Scope) (json.RawMessage, error) {
	v, err := n.switchValue.value(sc, nil)
	if err != nil {
		return nil, err
	}
	text, err := toText(v)
	_, found := n.Cases[text]
	switch {
	case found && err == nil:
		return encode(Chosen{Case: text})
	case n.Default != nil:
		return encode(Chosen{Case: text, Default: true})
	case err != nil:
		return nil, n.invalid("the expression `%s` of switch gives %s, and there is no `default`", n.Switch, typeName(v))
	default:
		names := sortedKeys(n.Cases)
		return nil, fault.New(fault.ValidationError, "step %q: there is no case for %s", n.ID, quote(shorten(text))).
			WithHint("the cases are %s; `default` is for all other values", strings.Join(names, ", "))
	}
}

// CaseSkipReason returns why a step of a case is skipped, or "" if it may run.
func (n *Node) CaseSkipReason(sc Scope) string {
	b := n.branch
	if b == nil {
		return ""
	}
	var chosen *Chosen
	if sc.Step != nil {
		result, _ := sc.Step(b.owner.ID)
		_ = json.Unmarshal(result.Output, &chosen) // a switch without a choice has no output
	}
	switch {
	case chosen == nil:
		return "the switch " + b.owner.ID + " has chosen no case"
	case b.isDefault == chosen.Default && (b.isDefault || b.name == chosen.Case):
		return ""
	default:
		return "the switch " + b.owner.ID + " has chosen the case " + quote(shorten(chosen.Case))
	}
}

// chosenShape returns the shape of the output of a switch.
func (s *Step) chosenShape() *shape {
	chosen := &shape{kinds: []string{"string"}}
	if s.Default == nil {
		chosen = oneOfWords(sortedKeys(s.Cases)...)
	}
	return object(map[string]*shape{"case": chosen, "default": {kinds: []string{"boolean"}}})
}

// Branch returns the id of the switch and the name of the case that contain the step, or "". The name for `default` is
// default.
func (s *Step) Branch() (of, name string) {
	switch b := s.branch; {
	case b == nil:
		return "", ""
	case b.isDefault:
		return b.owner.ID, "default"
	default:
		return b.owner.ID, b.name
	}
}
