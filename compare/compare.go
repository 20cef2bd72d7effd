// Package compare finds what differs between two tasks: their plans, inputs, steps, outputs and times.
package compare

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// The parts of a task, in the order of an answer.
const (
	partTask   = "task"
	partPlan   = "plan"
	partInputs = "inputs"
	partSteps  = "steps"
	partOutput = "output"
	partTimes  = "times"
)

// Fetch returns a recorded value as JSON; nil if the task has none.
type Fetch func(v events.Value) json.RawMessage

// Side is one of the tasks.
type Side struct {
	Task *statemachine.Task
	// Value returns the values of the task, also the large ones.
	Value Fetch
}

// Tasks returns what differs between two tasks. Values that are not valid JSON differ if their bytes do.
func Tasks(a, b Side) api.DiffReply {
	d := differ{reply: api.DiffReply{A: a.Task.ID, B: b.Task.ID, Entries: []api.Difference{}}}
	d.task(a.Task, b.Task)
	if x, y := a.Task.Submitted, b.Task.Submitted; x != nil && y != nil {
		d.recorded(partPlan, "plan", a, b, x.Plan, y.Plan)
		d.recorded(partInputs, "inputs", a, b, x.Inputs, y.Inputs)
	}
	d.steps(a, b)
	d.recorded(partOutput, "output", a, b, a.Task.Output, b.Task.Output)
	d.add(partTimes, "duration", durationOf(a.Task), durationOf(b.Task))
	if over := len(d.reply.Entries) - api.MaxDiffs; over > 0 {
		d.reply.Entries, d.reply.Omitted = d.reply.Entries[:api.MaxDiffs], over
	}
	return d.reply
}

// differ collects differences.
type differ struct{ reply api.DiffReply }

// task compares what the tasks are.
func (d *differ) task(a, b *statemachine.Task) {
	d.add(partTask, "state", a.State, b.State)
	d.add(partTask, "reason", textOrNil(a.Reason), textOrNil(b.Reason))
	d.add(partTask, "error", a.Error, b.Error)
	if a.Submitted == nil || b.Submitted == nil {
		return
	}
	d.add(partTask, "name", a.Submitted.Name, b.Submitted.Name)
	d.add(partTask, "priority", a.Submitted.Priority, b.Submitted.Priority)
	d.add(partTask, "queue", textOrNil(a.Submitted.Queue), textOrNil(b.Submitted.Queue))
	d.values(partTask, "labels", encode(a.Submitted.Labels), encode(b.Submitted.Labels))
	d.add(partTask, "submitter", a.Requestor, b.Requestor)
	d.values(partTask, "approvers", approversOf(a), approversOf(b))
}

// approversOf returns who decided the approvals of a task, by step, and how.
func approversOf(t *statemachine.Task) json.RawMessage {
	who := map[string][]string{}
	for _, a := range t.Approvals {
		step := cmp.Or(a.Step, a.Description)
		for _, vote := range a.Votes {
			who[step] = append(who[step], "agreed by "+vote.Approver)
		}
		if a.Decision != nil {
			who[step] = append(who[step], string(a.Status)+" by "+a.Decision.Approver)
		}
	}
	return encode(who)
}

// steps compares the steps by key, in the order of the first task, then those of the second alone.
func (d *differ) steps(a, b Side) {
	for _, key := range a.Task.Order {
		d.step(key, a, b)
	}
	for _, key := range b.Task.Order {
		if a.Task.Steps[key] == nil {
			d.step(key, a, b)
		}
	}
}

// step compares a step. Only differences that are not times count for api.DiffReply.Different.
func (d *differ) step(key string, a, b Side) {
	x, y := a.Task.Steps[key], b.Task.Steps[key]
	if x == nil || y == nil {
		d.reply.Different++
		d.add(partSteps, key+".state", stateOf(x), stateOf(y))
		return
	}
	before := len(d.reply.Entries)
	d.add(partSteps, key+".state", x.State, y.State)
	d.recorded(partSteps, key+".output", a, b, x.Output, y.Output)
	if !x.Reused() && !y.Reused() { // a reused result has no call of its own
		d.add(partSteps, key+".tool", textOrNil(x.Tool), textOrNil(y.Tool))
		d.recorded(partSteps, key+".args", a, b, x.Args, y.Args)
		d.add(partSteps, key+".error", x.Error, y.Error)
		d.add(partSteps, key+".attempts", x.Attempt, y.Attempt)
	}
	if len(d.reply.Entries) == before {
		d.reply.Same++
	} else {
		d.reply.Different++
	}
	if x.Reused() || y.Reused() {
		return
	}
	d.add(partTimes, key, x.Duration.String(), y.Duration.String())
}

func stateOf(s *statemachine.Step) any {
	if s == nil {
		return nil
	}
	return s.State
}

func durationOf(t *statemachine.Task) any {
	if !t.State.Terminal() {
		return nil
	}
	return t.UpdatedAt.Sub(t.CreatedAt).Round(time.Millisecond).String()
}

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// add compares two values. nil stands for a side without one.
func (d *differ) add(part, path string, a, b any) {
	x, y := encode(a), encode(b)
	if !bytes.Equal(x, y) {
		d.reply.Entries = append(d.reply.Entries, api.Difference{Part: part, Path: path, A: bounded(x), B: bounded(y)})
	}
}

// encode returns a value as JSON, nil for nil.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil
	}
	return text
}

// recorded compares two recorded values. Equal large values are not read.
func (d *differ) recorded(part, path string, a, b Side, x, y events.Value) {
	if x.Ref() == "" || x.Ref() != y.Ref() {
		d.values(part, path, a.Value(x), b.Value(y))
	}
}

// values compares two JSON values and descends into objects and lists, so that only what differs is reported.
func (d *differ) values(part, path string, a, b json.RawMessage) {
	if bytes.Equal(a, b) {
		return
	}
	var x, y any
	if parse(a, &x) != nil || parse(b, &y) != nil || len(a) == 0 || len(b) == 0 {
		d.reply.Entries = append(d.reply.Entries, api.Difference{Part: part, Path: path, A: bounded(a), B: bounded(b)})
		return
	}
	d.parsed(part, path, x, y)
}

// parse decodes a JSON value with its numbers as they are written. An empty text is no value.
func parse(text json.RawMessage, into *any) error {
	if len(text) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}

func (d *differ) parsed(part, path string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			d.objects(part, path, x, y)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			d.lists(part, path, x, y)
			return
		}
	}
	d.add(part, path, a, b)
}

func (d *differ) objects(part, path string, a, b map[string]any) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d.parsed(part, path+"."+name, a[name], b[name])
	}
}

// lists compares lists by position. Lists of objects with an id, such as steps, are compared by it.
func (d *differ) lists(part, path string, a, b []any) {
	x, y := byID(a), byID(b)
	if x != nil && y != nil {
		d.objects(part, path, x, y)
		return
	}
	for i := range max(len(a), len(b)) {
		d.parsed(part, path+"["+strconv.Itoa(i)+"]", at(a, i), at(b, i))
	}
}

// byID returns the elements of a list by their ids; nil unless all are objects with ids of their own.
func byID(list []any) map[string]any {
	all := make(map[string]any, len(list))
	for _, item := range list {
		object, _ := item.(map[string]any)
		id, ok := object["id"].(string)
		if !ok || all[id] != nil {
			return nil
		}
		all[id] = item
	}
	return all
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// bounded replaces a large value by its size and digest.
func bounded(v json.RawMessage) json.RawMessage {
	if len(v) <= api.MaxDiffValue {
		return v
	}
	sum := sha256.Sum256(v)
	return encode(map[string]any{"$size": len(v), "$sha256": hex.EncodeToString(sum[:])})
}
