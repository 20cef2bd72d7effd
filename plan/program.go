package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Program is a compiled plan: needs are resolved and expressions are compiled. It is immutable and safe for concurrent
// use.
type Program struct {
	plan           *Plan
	inputs         *inputs
	steps          []*Node
	verify         []*Node
	always         []*Node
	byID           map[string]*Node
	idempotencyKey *field
	concurrencyKey *field
	limitKey       *field
	allow          *field // nil when it contains no templates
	outputs        *field
}

// Plan returns the plan in normal form. It must not be modified.
func (pr *Program) Plan() *Plan { return pr.plan }

// Steps returns the nodes of `steps` in file order.
func (pr *Program) Steps() []*Node { return pr.steps }

// Verify returns the nodes of `verify` in file order.
func (pr *Program) Verify() []*Node { return pr.verify }

// Always returns the nodes of `always` in file order.
func (pr *Program) Always() []*Node { return pr.always }

// Node returns the top-level node with an id, in any section, or nil.
func (pr *Program) Node(id string) *Node { return pr.byID[id] }

// Scope is the environment in which expressions are evaluated. The zero value of each field is valid.
type Scope struct {
	// Inputs are the inputs as CheckInputs returned them.
	Inputs json.RawMessage
	// Step returns the result of a step. It is called only for ids that an expression refers to. False means that the
	// step has no result: its output is null and its state is pending.
	Step func(id string) (StepResult, bool)
	// Vars contains, within a for_each, the item under its `as` name and the index.
	Vars map[string]json.RawMessage
	// Task returns the values of task and schedule. It is called only for expressions that refer to them; nil stands for a zero
	// TaskInfo.
	Task func() TaskInfo
	// Hook returns the value of hook. It is called only for expressions that refer to it; nil stands for a task that no hook has
	// started.
	Hook func() HookInfo
}

// taskInfo returns the values of task and schedule.
func (sc Scope) taskInfo() TaskInfo {
	if sc.Task == nil {
		return TaskInfo{}
	}
	return sc.Task()
}

// value returns the value of task in expressions.
func (t TaskInfo) value() map[string]any {
	return map[string]any{"id": t.ID, "name": t.Name, "workspace": t.Workspace, "root": t.Root, "attempt": t.Attempt, "created": t.Created}
}

// scheduleValue returns the value of schedule in expressions.
func (t TaskInfo) scheduleValue() map[string]any {
	return map[string]any{"name": t.Schedule, "time": cmp.Or(t.ScheduleTime, t.Created)}
}

// TaskInfo contains the values of task and schedule in expressions. Workspace and Root are absolute paths.
type TaskInfo struct {
	ID, Name, Workspace, Root string
	// Created is the submission time: RFC 3339 in UTC, in seconds.
	Created string
	Attempt int
	// Schedule is the name of the schedule that has started the task, ScheduleTime the instant of its firing in the form of
	// Created. Both are empty for other tasks, and schedule.time is then the submission time: a plan of a schedule can be
	// submitted by hand.
	Schedule, ScheduleTime string
}

// CreatedAt formats a time for TaskInfo.Created.
func CreatedAt(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// StepResult is the value of steps.<id> in expressions.
type StepResult struct {
	State    string // "succeeded", "failed", "skipped" …
	Output   json.RawMessage
	Error    *StepError
	Attempts int
}

// StepError is why a step failed.
type StepError struct{ Code, Message string }

// field is a compiled template with the names that it refers to.
type field struct {
	template template
	steps    []string
	uses     map[string]bool
	// fixed is the encoded value of a field without expressions.
	fixed json.RawMessage
}

// isLiteral reports whether the field has no expressions, or only some that are wrong and were reported.
func (f *field) isLiteral() bool {
	_, is := f.template.(literal)
	return is
}

// value evaluates the field; extra adds names to the environment.
func (f *field) value(sc Scope, extra map[string]any) (any, error) {
	if fixed, ok := f.template.(literal); ok {
		return fixed.value, nil
	}
	env, err := f.env(sc, extra)
	if err != nil {
		return nil, err
	}
	v, err := f.template.eval(env)
	if err != nil {
		return nil, err
	}
	if v, err = jsonValue(v); err != nil {
		return nil, fault.Wrap(fault.ValidationError, err, err.Error()+" cannot be made of expressions")
	}
	return v, nil
}

// json evaluates the field and encodes the result.
func (f *field) json(sc Scope) (json.RawMessage, error) {
	if f.fixed != nil {
		return f.fixed, nil
	}
	v, err := f.value(sc, nil)
	if err != nil {
		return nil, err
	}
	return encode(v)
}

// env decodes the parts of the scope that the field refers to.
func (f *field) env(sc Scope, extra map[string]any) (map[string]any, error) {
	env := map[string]any{nameTick: ticker()}
	if f.uses[rootTask] {
		env[rootTask] = sc.taskInfo().value()
	}
	if f.uses[rootSchedule] {
		env[rootSchedule] = sc.taskInfo().scheduleValue()
	}
	if f.uses[rootHook] {
		v, err := sc.hookValue()
		if err != nil {
			return nil, err
		}
		env[rootHook] = v
	}
	if f.uses[rootInputs] {
		v, err := decodePart(sc.Inputs, "the inputs")
		if err != nil {
			return nil, err
		}
		if env[rootInputs] = v; v == nil {
			env[rootInputs] = map[string]any{}
		}
	}
	for name, raw := range sc.Vars {
		v, err := decodePart(raw, name)
		if err != nil {
			return nil, err
		}
		env[name] = v
	}
	steps := make(map[string]any, len(f.steps))
	for _, id := range f.steps {
		v, err := sc.result(id)
		if err != nil {
			return nil, err
		}
		steps[id] = v
	}
	env[rootSteps] = steps
	maps.Copy(env, extra)
	return env, nil
}

func (sc Scope) result(id string) (any, error) {
	result := StepResult{State: "pending"}
	if sc.Step != nil {
		if r, ok := sc.Step(id); ok {
			result = r
		}
	}
	output, err := decodePart(result.Output, "the output of step "+id)
	if err != nil {
		return nil, err
	}
	if result.Error == nil {
		result.Error = &StepError{}
	}
	return map[string]any{
		"output": output, "state": result.State, "attempts": result.Attempts,
		"error": map[string]any{"code": result.Error.Code, "message": result.Error.Message},
	}, nil
}

func decodePart(raw json.RawMessage, what string) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := decodeValue(raw)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, what+" is not valid JSON")
	}
	return exact(v), nil
}

// Outputs evaluates the outputs of the plan as an object.
func (pr *Program) Outputs(sc Scope) (json.RawMessage, error) { return pr.outputs.json(sc) }

// Node is a step with its resolved references.
type Node struct {
	*Step

	// Needs are the ids, on the same level, of the steps that must be done first: declared or referred to, sorted. If a
	// step in `do` refers to an outer step, the for_each node needs that step.
	Needs []string
	// Position is the position of the node in its list, from 0. Dependants are the positions of the nodes of this list that
	// need it.
	Position   int
	Dependants []int
	// Children are the nodes of `do`.
	Children []*Node
	// Sub is the compiled sub-plan of a run.
	Sub *Program
	// Covers are the steps whose calls an approve step approves in advance.
	Covers []Cover
	// Secrets are the secrets in the arguments of the call.
	Secrets []SecretUse
	// inputs are the names of the inputs that the step reads, anyInput if it may read all. It is nil for the nodes of a `do`,
	// whose inputs count for the for_each.
	inputs map[string]bool

	cond         *field
	args         *field
	items        *field
	set          *field
	switchValue  *field // switch
	wait         *field
	fallback     *field // default of a wait or an approve step
	question     *field
	persona      *field // agent
	verifyArgs   *field
	verifyExpect *field
	expected     *field // expect
	retryWhen    *field // retry.when
	until        *field
}

func (n *Node) invalid(format string, args ...any) error {
	return fault.New(fault.ValidationError, "step %q: %s", n.ID, fmt.Sprintf(format, args...))
}

// anyInput stands for all inputs in Node.inputs.
const anyInput = ""

// ReadsAny reports whether an expression of the step, or of a step in its `do`, reads one of the named inputs.
func (n *Node) ReadsAny(inputs []string) bool {
	return len(inputs) > 0 && n.inputs[anyInput] || slices.ContainsFunc(inputs, func(name string) bool { return n.inputs[name] })
}

// If evaluates the condition. It returns true for a step without a condition.
func (n *Node) If(sc Scope) (bool, error) {
	if n.cond == nil {
		return true, nil
	}
	return n.evalBool(n.cond, "if", sc, nil)
}

// evalBool evaluates f, the field name of the step, to true or false. Any other value is an error.
func (n *Node) evalBool(f *field, name string, sc Scope, extra map[string]any) (bool, error) {
	v, err := f.value(sc, extra)
	if err != nil {
		return false, err
	}
	yes, ok := v.(bool)
	if !ok {
		return false, n.invalid("the expression `%s` of %s gives %s, not true or false", f.source(), name, typeName(v))
	}
	return yes, nil
}

func (f *field) source() string {
	if e, ok := f.template.(*expression); ok {
		return e.source
	}
	return ""
}

// Args evaluates `with`, the arguments of the tool or the inputs of the sub-plan, as an object.
func (n *Node) Args(sc Scope) (json.RawMessage, error) {
	if n.args == nil {
		return json.RawMessage("{}"), nil
	}
	v, err := n.object(n.args, sc, nil)
	if err != nil {
		return nil, err
	}
	if n.args.fixed != nil {
		return n.args.fixed, nil
	}
	return encode(v)
}

func (n *Node) object(f *field, sc Scope, extra map[string]any) (map[string]any, error) {
	if f == nil {
		return map[string]any{}, nil
	}
	v, err := f.value(sc, extra)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, n.invalid("`with` gives %s, not an object", typeName(v))
	}
	return object, nil
}

// Items evaluates the items of a for_each; there are at most MaxItems.
func (n *Node) Items(sc Scope) ([]json.RawMessage, error) {
	v, err := n.items.value(sc, nil)
	if err != nil {
		return nil, err
	}
	if n.Matrix != nil {
		if v, err = n.combine(v); err != nil {
			return nil, err
		}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, n.invalid("the expression `%s` of for_each gives %s, not a list", n.items.source(), typeName(v))
	}
	if len(list) > MaxItems {
		return nil, n.invalid("for_each has %d items, more than %d", len(list), MaxItems)
	}
	return n.encodeItems(list)
}

// encodeItems encodes items. It returns an error if their total size exceeds maxValue: a matrix repeats the values of
// its axes in many items.
func (n *Node) encodeItems(list []any) (items []json.RawMessage, err error) {
	items, size := make([]json.RawMessage, len(list)), 0
	for i, item := range list {
		if items[i], err = encode(item); err != nil {
			return nil, err
		}
		if size += len(items[i]); size > maxValue {
			return nil, n.invalid("the items have more than %d MiB", maxValue>>20)
		}
	}
	return items, nil
}

// Set evaluates the values of a set step. The resulting object is the output of the step.
func (n *Node) Set(sc Scope) (json.RawMessage, error) { return n.set.json(sc) }

// WaitFor is an evaluated wait.
type WaitFor struct {
	Kind    string // "for", "until" or "signal"
	For     time.Duration
	Until   time.Time
	Signal  string
	Timeout time.Duration   // of a signal; 0 = none
	Default json.RawMessage // the output after a timeout; nil = a timeout is an error
}

// Wait evaluates a wait step.
func (n *Node) Wait(sc Scope) (WaitFor, error) {
	v, err := n.wait.value(sc, nil)
	if err != nil {
		return WaitFor{}, err
	}
	text, ok := v.(string)
	if !ok || text == "" {
		return WaitFor{}, n.invalid("wait needs a text, not %s", typeName(v))
	}
	switch {
	case n.Step.Wait.For != "":
		d, err := ParseDuration(text)
		if err != nil {
			return WaitFor{}, n.invalid("wait: %v", err)
		}
		return WaitFor{Kind: "for", For: d.Std()}, nil
	case n.Step.Wait.Until != "":
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return WaitFor{}, n.invalid("wait: %q is not a time like 2006-01-02T15:04:05Z", text)
		}
		return WaitFor{Kind: "until", Until: t}, nil
	default:
		w := WaitFor{Kind: "signal", Signal: text, Timeout: n.Step.Wait.Timeout.Std()}
		if n.fallback != nil {
			w.Default, err = n.fallback.json(sc)
		}
		return w, err
	}
}

// VerifyCall evaluates the call that decides whether a call in doubt happened; ok is false when the step declares no
// verify call.
func (n *Node) VerifyCall(sc Scope) (tool string, args json.RawMessage, ok bool, err error) {
	if n.Verify == nil {
		return "", nil, false, nil
	}
	called, err := n.object(n.args, sc, nil)
	if err != nil {
		return "", nil, true, err
	}
	v, err := n.object(n.verifyArgs, sc, map[string]any{rootArgs: exact(clone(called))})
	if err != nil {
		return "", nil, true, err
	}
	args, err = encode(v)
	return n.Verify.Tool, args, true, err
}

// VerifyExpect reports whether, according to the output of the verify call, the call happened.
func (n *Node) VerifyExpect(output json.RawMessage) (bool, error) {
	if n.verifyExpect == nil {
		return false, n.invalid("the step has no verify")
	}
	v, err := decodePart(output, "the output of "+n.Verify.Tool)
	if err != nil {
		return false, err
	}
	return n.evalBool(n.verifyExpect, "expect", Scope{}, map[string]any{rootOutput: v})
}

// typeName returns the JSON type of v for messages.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}

// union returns the sorted union of a and b.
func union(a []string, b map[string]bool) []string {
	all := append(slices.Clone(a), sortedKeys(b)...)
	slices.Sort(all)
	return slices.Compact(all)
}
