package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Version is the only supported value of the key `orch` of a plan file.
const Version = "v1"

// Limits of a plan. All of them are checked by [Parse] and [Compile].
const (
	MaxSource     = 1 << 20   // bytes of one file
	MaxNormalised = 4 << 20   // bytes of the normal form, with all sub-plans
	MaxStepCount  = 10_000    // steps on all levels, with all sub-plans
	MaxNeeds      = 100_000   // needs of all steps of a list, declared or implied
	MaxNesting    = 3         // sub-plans within sub-plans
	MaxExpression = 4 << 10   // bytes of one expression
	MaxItems      = 1_000_000 // items of one for_each
	MaxMatrix     = 10_000    // items of one matrix
	MaxLabels     = 32
)

// Effect classifies what a call of a tool changes, and whether it may be repeated.
type Effect string

// The effects, from harmless to irreversible.
const (
	EffectRead        Effect = "read"
	EffectIdempotent  Effect = "idempotent"
	EffectWrite       Effect = "write"
	EffectDestructive Effect = "destructive"
)

// Priority orders tasks that wait for the same workers.
type Priority string

// The priorities; normal is the default.
const (
	PriorityCritical Priority = "critical"
	PriorityHigh     Priority = "high"
	PriorityNormal   Priority = "normal"
	PriorityLow      Priority = "low"
)

// OnError decides how a failed step affects the rest of the task.
type OnError string

// The reactions to a failed step; fail is the default.
const (
	OnErrorFail           OnError = "fail"
	OnErrorContinue       OnError = "continue"
	OnErrorSkipDependents OnError = "skip_dependents"
)

// Collect decides which items are in the output of a for_each.
type Collect string

// The choices besides "", which means all items.
const (
	CollectFailed Collect = "failed"
	CollectNone   Collect = "none"
)

// Kind is the kind of a step.
type Kind string

// The kinds of steps. Each is also the key that a step of the kind has in the file.
const (
	KindTool    Kind = "tool"
	KindForEach Kind = "for_each"
	KindWait    Kind = "wait"
	KindRun     Kind = "run"
	KindSet     Kind = "set"
	KindApprove Kind = "approve"
	KindSwitch  Kind = "switch"
	KindAgent   Kind = "agent"
)

// The reactions to a concurrency key that is at its limit; queue is the default.
const (
	OnConflictQueue  = "queue"
	OnConflictReject = "reject"
	OnConflictCancel = "cancel_running"
)

// Plan is a plan in normal form: defaults are filled in and sub-plans are inlined. It must not be modified. Template
// values (with, set, outputs, keys) are not evaluated: they are JSON values whose strings may contain `${{ }}`, with
// numbers as json.Number.
type Plan struct {
	Orch           string            `json:"orch"`
	Name           string            `json:"name,omitempty"`
	Summary        string            `json:"summary,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Inputs         json.RawMessage   `json:"inputs,omitempty"` // JSON Schema; nil = no inputs
	Defaults       *Defaults         `json:"defaults,omitempty"`
	Limits         Limits            `json:"limits"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"` // template; the short form of Idempotency
	Idempotency    *Idempotency      `json:"idempotency,omitempty"`
	Priority       Priority          `json:"priority"`
	Concurrency    *Concurrency      `json:"concurrency,omitempty"`
	Allow          *Allow            `json:"allow,omitempty"`
	Secrets        map[string]string `json:"secrets,omitempty"` // name → env:NAME or file:/PATH
	Steps          []*Step           `json:"steps"`
	Verify         []*Step           `json:"verify,omitempty"`
	Always         []*Step           `json:"always,omitempty"`
	Outputs        map[string]any    `json:"outputs,omitempty"` // templates

	normal []byte // cached result of JSON
}

// Defaults are copied into each tool step that does not set the value.
type Defaults struct {
	Timeout Duration `json:"timeout,omitempty"`
	Retry   *Retry   `json:"retry,omitempty"`
	Queue   string   `json:"queue,omitempty"`
}

// Limits bounds a run.
type Limits struct {
	Deadline Duration `json:"deadline,omitempty"` // since submission; 0 = none
	MaxSteps int      `json:"max_steps"`          // tool calls, including retries; default 10,000
	Tools    []string `json:"tools,omitempty"`    // tools that the task and its children may call; empty = all
	// Key is a template: the limits of the node for each key (call_limits) count the calls of the task and of its children under it.
	Key string `json:"key,omitempty"`
}

// Idempotency deduplicates submissions: if a run already holds the key, a submission returns that run and starts no new
// one.
type Idempotency struct {
	Key string `json:"key"` // template
	// Scope is how long a run holds the key: forever, until_end, or a duration after submission. A run never releases
	// the key before it ends. Empty means forever, unless the run fails or is cancelled.
	Scope string `json:"scope,omitempty"`
}

// Scopes of a key.
const (
	ScopeForever  = "forever"
	ScopeUntilEnd = "until_end"
)

// Concurrency limits how many tasks with the same key run at a time.
type Concurrency struct {
	Key        string `json:"key"`         // template
	Limit      int    `json:"limit"`       // default 1
	OnConflict string `json:"on_conflict"` // queue (default), reject or cancel_running
}

// Step is one step of a plan. Kind decides which of the following fields are set. A bare expression is written without
// `${{ }}`.
type Step struct {
	ID        string   `json:"id"`
	Kind      Kind     `json:"-"`
	Needs     []string `json:"needs,omitempty"` // as declared; see Node.Needs
	If        string   `json:"if,omitempty"`    // bare expression
	Timeout   Duration `json:"timeout,omitempty"`
	Heartbeat Duration `json:"heartbeat,omitempty"` // longest time between two heartbeats of the worker; 0 = the node's default
	// StartWithin bounds how long each attempt waits for a worker or agent; 0 means without limit.
	StartWithin Duration `json:"start_within,omitempty"`
	Retry       *Retry   `json:"retry,omitempty"`
	OnError     OnError  `json:"on_error"`
	Queue       string   `json:"queue,omitempty"`

	// With contains the arguments of a tool or the inputs of a sub-plan: an object, or a single `${{ }}`.
	With any `json:"with,omitempty"`

	Tool   string      `json:"tool,omitempty"`
	Effect Effect      `json:"effect,omitempty"` // "" = the effect of the tool
	Verify *StepVerify `json:"verify,omitempty"`
	Expect string      `json:"expect,omitempty"` // bare expression over `output`; the call fails when it is false
	// Until is a bare expression over `output` and `round`. The call is repeated after Delay until the expression is
	// true, and fails when it is still false after MaxRounds calls.
	Until     string   `json:"until,omitempty"`
	MaxRounds int      `json:"max_rounds,omitempty"`
	Delay     Duration `json:"delay,omitempty"`
	// Approval configures the approval of its call; nil means the defaults of the node.
	Approval *Approval `json:"approval,omitempty"`

	ForEach     any     `json:"for_each,omitempty"` // bare expression, or a list of values and templates
	Matrix      any     `json:"matrix,omitempty"`   // instead of for_each: axes, or a template for them
	As          string  `json:"as,omitempty"`       // name of the loop variable; default item, or matrix for a matrix
	MaxParallel int     `json:"max_parallel,omitempty"`
	OnItemError OnError `json:"on_item_error,omitempty"` // fail (default) or continue
	Collect     Collect `json:"collect,omitempty"`       // "" = the outputs of all items
	Do          []*Step `json:"do,omitempty"`

	Switch string             `json:"switch,omitempty"` // bare expression
	Cases  map[string][]*Step `json:"cases,omitempty"`
	// Default contains the steps for a value without a case. If it is nil, a value without a case is an error.
	Default []*Step `json:"default,omitzero"`
	branch  *branch // the switch case that contains the step

	Approve *Approve `json:"approve,omitempty"`
	Agent   *Agent   `json:"agent,omitempty"`

	Wait *Wait          `json:"wait,omitempty"`
	Run  *Plan          `json:"run,omitempty"`
	Set  map[string]any `json:"set,omitempty"` // templates
}

// StepVerify is the call that decides whether a call in doubt happened.
type StepVerify struct {
	Tool   string `json:"tool"`
	With   any    `json:"with,omitempty"` // template; sees `args`, the arguments of the call in doubt
	Expect string `json:"expect"`         // bare expression over `output`; true if the call happened
}

// Wait suspends a task. Exactly one of For, Until and Signal is set.
type Wait struct {
	For     string   `json:"for,omitempty"`     // duration, or a template for one
	Until   string   `json:"until,omitempty"`   // RFC 3339 time, or a bare expression for one
	Signal  string   `json:"signal,omitempty"`  // template: the name of the signal
	Timeout Duration `json:"timeout,omitempty"` // of a signal; 0 = none
	Default any      `json:"default,omitempty"` // template: the output when the timeout passes
	// HasDefault distinguishes a null default from a missing one. Without a default, a timeout is an error.
	HasDefault bool `json:"-"`
}

// MarshalJSON writes a null default if HasDefault is true.
func (w *Wait) MarshalJSON() ([]byte, error) {
	type fields Wait // without MarshalJSON
	if !w.HasDefault || w.Default != nil {
		return json.Marshal((*fields)(w))
	}
	return json.Marshal(struct {
		*fields
		Default any `json:"default"`
	}{(*fields)(w), nil})
}

// JSON returns the normal form: keys are sorted and durations are Go strings. Equal plans have equal bytes.
func (p *Plan) JSON() []byte {
	if p.normal != nil {
		return bytes.Clone(p.normal)
	}
	raw, err := encode(p)
	if err != nil {
		panic("plan: a parsed plan cannot be encoded: " + err.Error())
	}
	v, err := decodeValue(raw)
	if err != nil {
		panic("plan: a parsed plan cannot be decoded: " + err.Error())
	}
	sorted, err := encode(v)
	if err != nil {
		panic("plan: a parsed plan cannot be sorted: " + err.Error())
	}
	return sorted
}

// SHA256 returns the hex digest of JSON.
func (p *Plan) SHA256() string {
	normal := p.normal
	if normal == nil {
		normal = p.JSON()
	}
	sum := sha256.Sum256(normal)
	return hex.EncodeToString(sum[:])
}

// Program compiles the plan.
func (p *Plan) Program() (*Program, error) { return Compile(p.JSON()) }

// encode returns v as JSON without HTML escapes and without a final newline.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decodeValue decodes one JSON value; numbers become json.Number.
func decodeValue(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errTrailing
	}
	return v, nil
}
