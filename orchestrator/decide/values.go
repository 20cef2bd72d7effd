package decide

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// maxNeeded limits the bytes of large values that one decision may need.
const maxNeeded = 64 << 20

// Fetched is the result of fetching a large value.
type Fetched struct {
	Raw json.RawMessage
	// Err is why the value is lost; nil if it is not lost.
	Err error
}

// bytesOf returns the size of the fetched values.
func bytesOf(values map[string]Fetched) (n int64) {
	for _, f := range values {
		n += int64(len(f.Raw))
	}
	return n
}

// Fetch returns the JSON of a value. If the value is not in memory, Fetch adds it to t.Missing, which stops the turn, and
// returns nil. If the value is lost, Fetch sets t.lost and returns nil.
func (t *Reading) Fetch(v events.Value) json.RawMessage {
	if v.Ref() == "" {
		return v.Raw
	}
	got, ok := t.Values[v.Ref()]
	if !ok {
		got.Raw, ok = t.Facts.CachedValue(v.Ref())
	}
	switch {
	case ok && got.Err == nil:
		return got.Raw
	case ok && t.lost == nil:
		t.lost = Unreadable(got.Err)
	case ok:
	case t.needed+v.Size()+bytesOf(t.Values) > maxNeeded:
		t.lost = fault.New(fault.ValidationError, "this needs large values of more than %d MiB in all", maxNeeded>>20).
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let a tool put them into files, and pass on the paths")
	default:
		t.needed += v.Size()
		t.Missing = append(t.Missing, v)
	}
	return nil
}

// OutcomeOf returns the error of an evaluation. The loss of a value takes precedence over err. If err is nil but a result
// contains a secret, OutcomeOf returns SECRET_DETECTED, because the checks of the plan did not see the result.
func (t *Reading) OutcomeOf(err error, results ...json.RawMessage) error {
	if lost := t.lost; lost != nil {
		t.lost = nil
		return lost
	}
	if err != nil {
		return t.Rules.redacted(err)
	}
	for _, raw := range results {
		if rule, found := t.Rules.FindSecret(raw); found {
			return SecretIn("", rule)
		}
	}
	return nil
}

// Unreadable returns the error of an evaluation that needs a lost value.
func Unreadable(err error) *fault.Error {
	return fault.Wrap(fault.DataLoss, err, "a large value is not in the blob store any more, or it is damaged").
		WithHint("orch doctor looks at the store")
}

// value returns raw as a value of an event. It adds large values to t.Blobs, which are stored before the commit; the event then
// contains only the reference. Once the values inside the commit have maxCommit bytes, it does so with smaller values as well.
func (t *Turn) value(raw json.RawMessage) events.Value {
	const smallest = 256 // a reference is about 100 bytes
	v := events.Inline(raw)
	if !v.MustOffload() && (len(raw) < smallest || t.inline+len(raw) <= maxCommit) {
		t.inline += len(raw)
		return v
	}
	return t.offload(raw)
}

// offload returns raw as a large value, unless it is no larger than a reference.
func (t *Turn) offload(raw json.RawMessage) events.Value {
	const reference = 128 // bytes
	if v := events.Inline(raw); len(raw) <= reference && !v.MustOffload() {
		return v
	}
	v := events.Offloaded(raw)
	if !t.stopped() {
		t.Blobs = append(t.Blobs, raw)
		t.Facts.CacheValue(v.Ref(), raw)
	}
	return v
}

// maxCommit limits the bytes of values inside one commit. A message of the log has at most 8 MiB.
const maxCommit = 1 << 20

// scope returns the values that expressions of a step can use. in is the item of the step, or nil outside a for_each.
func (t *Reading) scope(in *Item) plan.Scope {
	sc := plan.Scope{
		Inputs: t.Fetch(t.Task.Submitted.Inputs),
		Step:   func(id string) (plan.StepResult, bool) { return t.result(t.scopeKey(id, in)) },
		Task:   t.taskInfo,
	}
	if t.Task.Submitted.Hook != nil {
		sc.Hook = t.hookInfo
	}
	if in != nil {
		sc.Vars = map[string]json.RawMessage{
			in.Node.As: t.Fetch(in.value),
			"index":    json.RawMessage(strconv.Itoa(in.Index)),
		}
	}
	return sc
}

// taskInfo returns the values of task and schedule in expressions.
func (t *Reading) taskInfo() plan.TaskInfo {
	root, id := cmp.Or(t.Task.Submitted.Root, t.Rules.Root), HomeOf(t.Task)
	info := plan.TaskInfo{
		ID: string(id), Name: NameOf(t.Task), Attempt: 1, Created: plan.CreatedAt(submittedAt(t.Task)),
		Workspace: t.Rules.Workspace(root, id), Root: root,
	}
	return WithSchedule(info, t.Task.Submitted.Schedule)
}

// hookInfo returns the value of hook in expressions of a task that a hook has started.
func (t *Reading) hookInfo() plan.HookInfo {
	d := t.Task.Submitted.Hook
	return HookInfo(d, t.Fetch(d.Body))
}

// HookInfo returns the value that expressions see of a delivery with a body.
func HookInfo(d *events.Delivery, body json.RawMessage) plan.HookInfo {
	return plan.HookInfo{Name: d.Name, Delivery: d.ID, Subject: d.Subject, Headers: d.Headers, Body: body}
}

// WithSchedule adds the firing that has started a task, if any, to the values that expressions of its plan see.
func WithSchedule(info plan.TaskInfo, f *events.Firing) plan.TaskInfo {
	if f != nil {
		info.Schedule, info.ScheduleTime = f.Name, plan.CreatedAt(f.Time)
	}
	return info
}

// verifyScope is scope with the arguments of the call in doubt as `args`.
func (t steps) verifyScope(key string, in *Item) plan.Scope {
	sc := t.scope(in)
	vars := map[string]json.RawMessage{"args": t.Fetch(t.Task.Steps[key].Args)}
	maps.Copy(vars, sc.Vars)
	sc.Vars = vars
	return sc
}

// scopeKey returns the key of the step instance that an id refers to inside an item: a sibling first, then a step of the plan.
func (t *Reading) scopeKey(id string, in *Item) string {
	if in != nil {
		for _, child := range in.Node.Children {
			if child.ID == id {
				return in.Key(id)
			}
		}
	}
	return id
}

// result returns the result of a step instance for expressions; false if the step has not started.
func (t *Reading) result(key string) (plan.StepResult, bool) {
	s := t.Task.Steps[key]
	if k := t.known(key); k != nil && s == nil {
		s = &statemachine.Step{State: statemachine.StepState(k.State), Output: k.Output, Error: k.Error, Attempt: k.Attempts}
	}
	if s == nil {
		return plan.StepResult{State: string(statemachine.StepPending)}, false
	}
	r := plan.StepResult{State: string(s.State), Output: t.Fetch(s.Output), Attempts: s.Attempt}
	if s.Error != nil {
		r.Error = &plan.StepError{Code: string(s.Error.Code), Message: s.Error.Message}
	}
	return r, true
}
