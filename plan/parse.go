package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Options give a check access to information outside the file. The zero value works.
type Options struct {
	// ReadFile reads the file of a `run: ./other.yaml`, resolved against the name of the plan that contains the step.
	// The sub-plan is inlined, so a run never reads the file again. If nil, such steps are rejected.
	ReadFile func(path string) ([]byte, error)
	// Tool looks up a tool by name. If nil, names and arguments of tools are not checked.
	Tool func(name string) (ToolInfo, bool)
	// ToolNames lists the tools for "did you mean" hints. If nil, there are no such hints.
	ToolNames func() []string
	// Warn is called for a part of the plan that is allowed but probably a mistake. If nil, these checks are skipped.
	Warn func(Problem)
	// Languages caches configured languages between plans. If nil, they are built for each plan.
	Languages *Languages
	// Accepted is true for a plan that was accepted before. Its values are not checked again, so that a newer version
	// of a check does not reject it.
	Accepted bool
}

// ToolInfo describes a tool to a check.
type ToolInfo struct {
	// Name is the canonical name if the tool was looked up by an alias; else empty.
	Name   string
	Effect Effect
	// EffectOf returns the effect of a call with arguments, of which those that are not known are left out; nil means Effect.
	EffectOf func(args json.RawMessage) Effect
	// AnyState is true if the tool may run in every state of its task, including COMPLETED.
	AnyState bool
	// Direct is true if only people and programs call the tool directly, and tasks cannot.
	Direct bool
	// Required are the names of the required inputs.
	Required []string
	// Command is the input that contains a shell command; empty for none.
	Command string
	// Paths are the inputs that contain an absolute path.
	Paths []string
	// Secrets are the inputs whose entries may be secrets. The value is true if text may precede the secret.
	Secrets map[string]bool
	// Properties are the names of all inputs; nil means unknown, and every name is accepted.
	Properties []string
	// Input and Output return the JSON Schemas of the input and the output; nil means unknown.
	Input, Output func() json.RawMessage
	// Check validates the arguments of a call as the tool does before it starts; nil means unknown.
	Check func(json.RawMessage) (json.RawMessage, error)
}

// Parse parses a plan in YAML or JSON and checks it completely. name is the file name for messages and for resolving
// sub-plans. The error is a *fault.Error of the code INVALID_PLAN whose Err is Problems.
func Parse(name string, src []byte, opt Options) (*Plan, error) {
	p, _, err := load(name, src, sourceBounds(), opt)
	return p, err
}

// Load is Parse followed by [Plan.Program]. A source in normal form is parsed only once.
func Load(name string, src []byte, opt Options) (*Plan, *Program, error) {
	p, pr, err := load(name, src, loadBounds(src), opt)
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(p.normal, src) {
		_, pr, err = load("plan.json", p.normal, normalBounds(), Options{Languages: opt.Languages, Accepted: true})
	}
	return p, pr, err
}

// Compile compiles the normal form of Plan.JSON to a Program. It repeats the checks of [Parse], except those that need
// Options and those of values, and returns the same errors.
func Compile(normalised []byte) (*Program, error) {
	_, pr, err := load("plan.json", normalised, normalBounds(), Options{Accepted: true})
	return pr, err
}

func load(name string, src []byte, limit bounds, opt Options) (*Plan, *Program, error) {
	l := &loader{opt: opt, planLocations: map[*Plan]location{}, stepLocations: map[*Step]location{}, toolShapes: map[string]*shape{}, toolInputs: map[string]*jsonschema.Schema{}, languages: opt.Languages.get()}
	defer opt.Languages.put(l.languages)
	doc := readDocument(name, src, limit, &l.problems, opt.Warn)
	if doc == nil {
		return nil, nil, l.problems.fault()
	}
	p := l.document(cursor{location{doc: doc}, doc.root})
	if l.broken {
		return nil, nil, l.problems.fault()
	}
	pr := l.link(p)
	if len(l.problems) == 0 {
		p.normal = p.JSON()
	}
	if len(p.normal) > MaxNormalised {
		doc.report(1, 1, "", fmt.Sprintf("the plan with its sub-plans has more than %d bytes", MaxNormalised), "")
	}
	if err := l.problems.fault(); err != nil {
		return nil, nil, err
	}
	return p, pr, nil
}

// document parses a file: a plan, or an agent.
func (l *loader) document(c cursor) *Plan {
	if c.isAgentFile() {
		return l.agentFile(c)
	}
	return l.plan(c, 0)
}

// loader builds a plan and its sub-plans.
type loader struct {
	opt           Options
	problems      Problems
	steps         int
	bytes         int                // total size of the sub-plan files
	planLocations map[*Plan]location // location of each plan
	stepLocations map[*Step]location // location of each step
	broken        bool               // the references between the steps cannot be checked
	languages     languages
	// toolShapes caches the output shapes of tools.
	toolShapes map[string]*shape
	// toolInputs caches the compiled input schemas of tools.
	toolInputs map[string]*jsonschema.Schema
}

// plan parses one plan; nesting counts the enclosing plans.
func (l *loader) plan(c cursor, nesting int) *Plan {
	p := &Plan{Priority: PriorityNormal, Limits: Limits{MaxSteps: defaultMaxSteps}}
	l.planLocations[p] = c.location
	if c.node.Kind != yaml.MappingNode {
		c.report("a plan is an object, but this is "+c.kind(), HintNew)
		l.broken = true
		return p
	}
	section := func(to *[]*Step) func(cursor) {
		return func(c cursor) { *to = l.list(c, nesting) }
	}
	c.object(map[string]func(cursor){
		"orch":            func(c cursor) { p.Orch = c.text() },
		"name":            func(c cursor) { p.Name = c.short(200) },
		"summary":         func(c cursor) { p.Summary = c.text() },
		"labels":          func(c cursor) { p.Labels = c.labels() },
		"inputs":          func(c cursor) { p.Inputs = c.schema() },
		"defaults":        func(c cursor) { p.Defaults = c.defaults() },
		"limits":          func(c cursor) { p.Limits = c.limits() },
		"idempotency_key": func(c cursor) { p.IdempotencyKey = c.text() },
		"idempotency":     func(c cursor) { p.Idempotency = c.idempotency() },
		"priority":        func(c cursor) { p.Priority = Priority(c.oneOf("critical", "high", "normal", "low")) },
		"concurrency":     func(c cursor) { p.Concurrency = c.concurrency() },
		"allow":           func(c cursor) { p.Allow = c.allow() },
		"secrets":         func(c cursor) { p.Secrets = c.secrets() },
		"steps":           section(&p.Steps),
		"verify":          section(&p.Verify),
		"always":          section(&p.Always),
		"outputs":         func(c cursor) { p.Outputs = c.values() },
		"servers":         unsupported("does not start MCP servers of a plan", HintServers),
		"compensate":      unsupported("does not run `compensate`", "use `always` with an `if`"),
	})
	l.required(c, p)
	applyDefaults(p.Defaults, p.Steps, p.Verify, p.Always)
	return p
}

// unsupported reports a key that the format reserves and this version does not support.
func unsupported(what, hint string) func(cursor) {
	return func(c cursor) { c.report("this version of orch "+what, hint) }
}

func (l *loader) required(c cursor, p *Plan) {
	switch {
	case !c.has("orch"):
		c.report("the key `orch` is missing", "begin the plan with `orch: "+Version+"`")
	case p.Orch != Version:
		c.location.field("orch").report("the format "+quote(p.Orch)+" is unknown", "this version of orch reads `orch: "+Version+"`")
	}
	if !c.has("steps") {
		c.report("the key `steps` is missing", "a plan has at least one step")
	} else if len(p.Steps) == 0 {
		c.location.field("steps").report("a plan has at least one step", "")
	}
}

// applyDefaults copies each default into the tool steps that do not set the value.
func applyDefaults(d *Defaults, sections ...[]*Step) {
	if d == nil {
		return
	}
	for _, steps := range sections {
		for _, s := range steps {
			applyDefaults(d, s.inner())
			if s.Kind != KindTool {
				continue
			}
			if s.Timeout == 0 {
				s.Timeout = d.Timeout
			}
			if s.Retry == nil {
				s.Retry = d.Retry
			}
			if s.Queue == "" {
				s.Queue = d.Queue
			}
		}
	}
}

func (c cursor) has(key string) bool {
	_, exact := c.path.field(key).find(c.doc.root)
	return exact
}

// short returns a string of at most n characters.
func (c cursor) short(n int) string {
	s := c.text()
	if len([]rune(s)) > n {
		c.report(fmt.Sprintf("has more than %d characters", n), "")
	}
	return s
}

func (c cursor) labels() map[string]string {
	labels := map[string]string{}
	for _, p := range c.pairs() {
		if !isLabel(p.key) {
			p.reportKey("the label "+quote(p.key)+" has a wrong form",
				"lower-case letters, digits and . _ / -, at most 63, the first a letter or digit")
		}
		labels[p.key] = p.value.short(256)
	}
	if len(labels) > MaxLabels {
		c.report(fmt.Sprintf("a plan has at most %d labels, this has %d", MaxLabels, len(labels)), "")
	}
	return labels
}

func (c cursor) schema() json.RawMessage {
	if c.node.Kind != yaml.MappingNode {
		c.report("inputs is a JSON Schema of an object, but this is "+c.kind(), "")
		return nil
	}
	raw, err := encode(c.value())
	if err != nil {
		c.report("is not valid JSON: "+err.Error(), "")
	}
	return raw
}

func (c cursor) defaults() *Defaults {
	d := &Defaults{}
	c.object(map[string]func(cursor){
		"timeout": func(c cursor) { d.Timeout = c.duration() },
		"retry":   func(c cursor) { d.Retry = c.retry() },
		"queue":   func(c cursor) { d.Queue = c.queue() },
	})
	return d
}

// The default and the highest value of `limits.max_steps`.
const (
	defaultMaxSteps = 10_000
	highestMaxSteps = 1_000_000
)

func (c cursor) limits() Limits {
	l := Limits{MaxSteps: defaultMaxSteps}
	c.object(map[string]func(cursor){
		"deadline":  func(c cursor) { l.Deadline = c.duration() },
		"max_steps": func(c cursor) { l.MaxSteps = c.count(highestMaxSteps) },
		"tools":     func(c cursor) { l.Tools = c.toolNames() },
		"key": func(c cursor) {
			if l.Key = c.text(); l.Key == "" {
				c.report("the key is empty", "such as `key: ${{ inputs.customer }}`; leave it out for none")
			}
		},
	})
	return l
}

func (c cursor) idempotency() *Idempotency {
	i := &Idempotency{}
	c.object(map[string]func(cursor){
		"key": func(c cursor) { i.Key = c.text() },
		"scope": func(c cursor) {
			i.Scope = c.text()
			if _, err := ParseScope(i.Scope); err != nil {
				c.report(err.Error(), "leave it out to hold the key for ever, unless the run fails or is cancelled")
			}
		},
	})
	if i.Key == "" {
		c.report("idempotency needs a `key`", "such as `key: nightly-${{ inputs.date }}`")
	}
	return i
}

// maxKeyScope bounds a scope that is a duration.
const maxKeyScope = 366 * 24 * time.Hour

// ParseScope returns the duration of an idempotency key's scope, or 0 for a scope that is not a duration.
func ParseScope(scope string) (time.Duration, error) {
	if scope == "" || scope == ScopeForever || scope == ScopeUntilEnd {
		return 0, nil
	}
	parsed, err := ParseDuration(scope)
	d := time.Duration(parsed)
	if err != nil || d < time.Second || d > maxKeyScope {
		return 0, fmt.Errorf("%s is neither %s, %s nor a duration between 1s and 366d", quote(scope), ScopeForever, ScopeUntilEnd)
	}
	return d, nil
}

func (c cursor) concurrency() *Concurrency {
	con := &Concurrency{Limit: 1, OnConflict: OnConflictQueue}
	c.object(map[string]func(cursor){
		"key":         func(c cursor) { con.Key = c.text() },
		"limit":       func(c cursor) { con.Limit = c.count(10_000) },
		"on_conflict": func(c cursor) { con.OnConflict = c.oneOf(OnConflictQueue, OnConflictReject, OnConflictCancel) },
	})
	if con.Key == "" {
		c.report("a concurrency limit needs a `key`", "such as `key: deploy-${{ inputs.service }}`")
	}
	return con
}

func (c cursor) retry() *Retry {
	r := newRetry()
	classes := func(to *[]string) func(cursor) {
		return func(c cursor) {
			for _, item := range c.list() {
				*to = append(*to, item.oneOf(retryClasses()...))
			}
		}
	}
	c.object(map[string]func(cursor){
		"max_attempts": func(c cursor) { r.MaxAttempts = c.count(maxAttempts) },
		"initial":      func(c cursor) { r.Initial = c.duration() },
		"max":          func(c cursor) { r.Max = c.duration() },
		"factor":       func(c cursor) { r.Factor = c.real(1, 100) },
		"jitter":       func(c cursor) { r.Jitter = c.real(0, 1) },
		"on":           classes(&r.On),
		"not_on":       classes(&r.NotOn),
		"when":         func(c cursor) { r.When = c.expression() },
	})
	if r.Max < r.Initial && c.has("max") {
		c.location.field("max").report("the longest delay is shorter than the initial one", "")
	}
	r.Max = max(r.Max, r.Initial)
	return r
}

// queue parses the name of a work queue.
func (c cursor) queue() string {
	s := c.text()
	if s != "" && !isLabel(s) {
		c.report("the queue "+quote(s)+" has a wrong form", "lower-case letters, digits and . _ / -, at most 63")
	}
	return s
}

// values parses an object of templates.
func (c cursor) values() map[string]any {
	object := map[string]any{}
	for _, p := range c.pairs() {
		object[p.key] = p.value.value()
	}
	return object
}

// isLabel reports whether s matches ^[a-z0-9][a-z0-9._/-]{0,62}$.
func isLabel(s string) bool {
	for i, r := range []byte(s) {
		letter := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || (r != '.' && r != '_' && r != '/' && r != '-')) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// isID reports whether s matches ^[a-z][a-z0-9_]*$ and has at most 63 characters.
func isID(s string) bool {
	for i, r := range []byte(s) {
		letter := r >= 'a' && r <= 'z'
		if !letter && (i == 0 || (r != '_' && (r < '0' || r > '9'))) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}
