// Package evals reads sets of cases for agents, turns them into plans, and judges what came of them.
//
// A set runs each case with each variant of an agent: another model, prompt, set of tools. Each run is a task of its own. The calls of
// its agent get recorded results; others are made only if their tools read. The first variant is the baseline of the comparison.
package evals

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// The limits of a set.
const (
	MaxSource   = 4 << 20
	MaxCases    = 1000
	MaxVariants = 20
	MaxRepeat   = 100
	MaxRuns     = 10_000
	maxName     = 100
)

// defaultTimeout is how long a run may take.
const defaultTimeout = "30m"

// Set is a set of cases.
type Set struct {
	// Agent is the agent of all variants; zero if each case or variant has its own.
	Agent    Agent
	Variants []Variant
	Cases    []Case
	// Tools and Expect apply to all cases, before their own.
	Tools  []Mode
	Expect []Check
	// Repeat is how often each case runs with each variant. MinRate is the share of these runs that has to pass.
	Repeat  int
	MinRate float64
	// Budget is the budget of each run, with the keys of a step; nil leaves it to the agent. MaxUSD limits the cost of all runs in US
	// dollars; 0 means no limit. Timeout is how long a run may take.
	Budget  map[string]any
	MaxUSD  float64
	Timeout string
}

// Agent is an agent: the name or path of its file, or its keys.
type Agent struct {
	File string
	Keys map[string]any
}

// IsZero reports whether there is no agent.
func (a Agent) IsZero() bool { return a.File == "" && a.Keys == nil }

// Variant is a column of the comparison: an agent with other keys.
type Variant struct {
	Name string
	// Agent is its agent instead of that of the set.
	Agent Agent
	// Keys replace those of the agent.
	Keys map[string]any
	// Recorded stands for what was recorded: nothing runs.
	Recorded bool
}

// Case is a row of the comparison.
type Case struct {
	Name   string
	Prompt string
	Inputs map[string]any
	// Task is a recorded task, Step the key of its agent step; "" if it has only one.
	Task, Step string
	// Calls are calls with their results, which come before the recorded ones.
	Calls  []any
	Tools  []Mode
	Expect []Check
}

// The ways in which the calls of tools are answered.
const (
	// ModeRecorded answers calls from the record, and refuses others. ModeLive makes them. ModeRefuse refuses them.
	ModeRecorded = "recorded"
	ModeLive     = "live"
	ModeRefuse   = "refuse"
	// modeAuto answers from the record, makes other calls of tools that read, and refuses the rest.
	modeAuto = "auto"
)

// Mode is how the calls of the tools with a pattern are answered. The last mode whose pattern matches counts.
type Mode struct{ Pattern, Mode string }

var setName = regexp.MustCompile(`^[^\x00-\x1f\x7f]{1,100}$`)

// Read parses a set. It returns INVALID_FORMAT with the line and the key.
func Read(name string, src []byte) (*Set, error) {
	r := &reader{}
	s := &Set{Repeat: 1, MinRate: 1, Timeout: defaultTimeout}
	if root := r.document(src); root != nil {
		r.set(field{"", root}, s)
	}
	if r.err != nil {
		return nil, fault.New(fault.InvalidFormat, "%s: %v", name, r.err).WithHint("docs/reference/evals.md describes sets of cases")
	}
	return s, nil
}

// document returns the root of a document.
func (r *reader) document(src []byte) *yaml.Node {
	if len(src) > MaxSource {
		r.err = fmt.Errorf("the set has more than %d bytes", MaxSource)
		return nil
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(src))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		r.err = errors.New("the set is empty: it needs cases")
	case err != nil:
		r.err = errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	case !errors.Is(decoder.Decode(&second), io.EOF):
		r.err = errors.New("the set has a second document")
	default:
		return document.Content[0]
	}
	return nil
}

func (r *reader) set(f field, s *Set) {
	r.object(f, map[string]func(field){
		"agent":    func(f field) { s.Agent = r.agent(f) },
		"variants": func(f field) { r.list(f, MaxVariants, func(f field) { s.Variants = append(s.Variants, r.variant(f)) }) },
		"cases":    func(f field) { r.list(f, MaxCases, func(f field) { s.Cases = append(s.Cases, r.oneCase(f)) }) },
		"tools":    func(f field) { s.Tools = r.modes(f) },
		"expect":   func(f field) { s.Expect = r.checks(f) },
		"repeat":   func(f field) { s.Repeat = r.count(f, MaxRepeat) },
		"min_rate": func(f field) { s.MinRate = r.number(f, 1) },
		"budget":   func(f field) { s.Budget = r.keys(f) },
		"max_usd":  func(f field) { s.MaxUSD = r.number(f, 1e6) },
		"timeout":  func(f field) { s.Timeout = r.timeout(f) },
	})
	if len(s.Variants) == 0 {
		s.Variants = []Variant{{Name: "agent"}}
	}
	switch {
	case len(s.Cases) == 0:
		r.fail(f, "the set needs cases")
	case len(s.Cases)*len(s.Variants)*s.Repeat > MaxRuns:
		r.fail(f, "the set has %d runs, more than %d", len(s.Cases)*len(s.Variants)*s.Repeat, MaxRuns)
	}
	r.checkNames(f, s)
	r.checkAgents(f, s)
}

// checkNames reports names that occur twice.
func (r *reader) checkNames(f field, s *Set) {
	seen := map[string]bool{}
	for i, v := range s.Variants {
		if seen["variant "+v.Name] {
			r.fail(f, "variants[%d]: there are two variants %q", i, v.Name)
		}
		seen["variant "+v.Name] = true
	}
	for i, c := range s.Cases {
		if seen["case "+c.Name] {
			r.fail(f, "cases[%d]: there are two cases %q", i, c.Name)
		}
		seen["case "+c.Name] = true
	}
}

// checkAgents reports cases without an agent, or without a record that a variant needs.
func (r *reader) checkAgents(f field, s *Set) {
	for i, c := range s.Cases {
		for _, v := range s.Variants {
			switch {
			case c.Task != "":
			case v.Recorded:
				r.fail(f, "cases[%d]: the variant %q is what was recorded, so the case needs a task", i, v.Name)
			case s.Agent.IsZero() && v.Agent.IsZero():
				r.fail(f, "cases[%d]: the case has no task, so the set needs an agent", i)
			}
		}
	}
}

func (r *reader) agent(f field) Agent {
	if f.node.Kind == yaml.MappingNode {
		return Agent{Keys: r.keys(f)}
	}
	return Agent{File: r.text(f)}
}

// agentKeys are the keys of an agent that a variant can replace.
func agentKeys() []string {
	return []string{"model", "fallback", "instructions", "prompt", "tools", "result", "max_turns", "max_tokens", "temperature", "context", "handoff", "budget"}
}

func (r *reader) variant(f field) Variant {
	v := Variant{Keys: map[string]any{}}
	fields := map[string]func(field){
		"name":     func(f field) { v.Name = r.name(f) },
		"agent":    func(f field) { v.Agent = r.agent(f) },
		"recorded": func(f field) { v.Recorded = r.truth(f) },
	}
	for _, key := range agentKeys() {
		fields[key] = func(f field) { v.Keys[key] = r.value(f) }
	}
	r.object(f, fields)
	switch {
	case v.Name == "":
		r.fail(f, "a variant needs a name")
	case v.Recorded && (len(v.Keys) > 0 || !v.Agent.IsZero()):
		r.fail(f, "a variant that is recorded has no other keys")
	}
	return v
}

func (r *reader) oneCase(f field) Case {
	var c Case
	r.object(f, map[string]func(field){
		"name":   func(f field) { c.Name = r.name(f) },
		"prompt": func(f field) { c.Prompt = r.text(f) },
		"inputs": func(f field) { c.Inputs = r.keys(f) },
		"task":   func(f field) { c.Task, c.Step, _ = strings.Cut(r.text(f), "/") },
		"calls":  func(f field) { r.list(f, MaxRuns, func(f field) { c.Calls = append(c.Calls, r.keys(f)) }) },
		"tools":  func(f field) { c.Tools = r.modes(f) },
		"expect": func(f field) { c.Expect = r.checks(f) },
	})
	switch {
	case c.Name == "":
		r.fail(f, "a case needs a name")
	case c.Prompt == "" && c.Inputs == nil && c.Task == "":
		r.fail(f, "a case needs a prompt, inputs or a task")
	}
	return c
}

// modes reads how the calls of tools are answered, in order.
func (r *reader) modes(f field) (all []Mode) {
	modes := []string{ModeRecorded, ModeLive, ModeRefuse}
	r.each(f, func(pattern string, f field) {
		mode := r.text(f)
		if r.err == nil && !slices.Contains(modes, mode) {
			r.fail(f, "%q is none of %s", mode, strings.Join(modes, ", "))
		}
		all = append(all, Mode{r.pattern(f, pattern), mode})
	})
	return all
}

// timeout reads a duration in the form of a plan.
func (r *reader) timeout(f field) string {
	text := r.text(f)
	if d, err := plan.ParseDuration(text); r.err == nil && (err != nil || d <= 0) {
		r.fail(f, "%q is not a duration such as 90s or 10m", text)
	}
	return text
}

// duration reads a duration.
func (r *reader) duration(f field) time.Duration {
	d, err := plan.ParseDuration(r.text(f))
	if r.err == nil && (err != nil || d <= 0) {
		r.fail(f, "%q is not a duration such as 90s or 10m", f.node.Value)
	}
	return d.Std()
}

// name reads the name of a case or a variant.
func (r *reader) name(f field) string {
	text := r.text(f)
	if r.err == nil && !setName.MatchString(text) {
		r.fail(f, "must have 1 to %d characters", maxName)
	}
	return text
}

// known lists the names of fields.
func known(fields map[string]func(field)) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}
