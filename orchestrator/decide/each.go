package decide

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// startEach evaluates and records the items of a for_each.
func (t steps) startEach(n *plan.Node, key string, sc plan.Scope) {
	if t.Task.Part != nil {
		t.startPart(key)
		return
	}
	items, err := n.Items(sc)
	size := 0
	if err == nil {
		size, err = t.sizeOfPart(n, len(items))
	}
	if err = t.OutcomeOf(err, items...); err != nil {
		t.failStep(key, err)
		return
	}
	if size > 0 {
		t.divide(key, items, size)
		return
	}
	values := make([]events.Value, len(items))
	for i, raw := range items {
		values[i] = t.value(raw)
	}
	t.activate()
	t.Emit(events.StepExpanded, &events.Expanded{Step: key, Items: values})
}

// moveItems moves the steps of the items of a for_each, at most max_parallel items at a time. It ends the for_each when its
// items have ended.
func (t steps) moveItems(n *plan.Node, s *statemachine.Step) {
	each, first := t.itemsOf(n, s), t.FirstItem(s.Key)
	for i, ok := each.due.take(0); ok; i, ok = each.due.take(i + 1) {
		t.moveItem(each, &Item{Node: n, Index: i, value: s.Items[i-first]})
	}
	for len(each.open) < t.parallelOf(n) && each.next-first < len(s.Items) && each.failedStep == "" && !t.stopped() {
		it := &Item{Node: n, Index: each.next, value: s.Items[each.next-first]}
		each.open.add(it.Index)
		t.moveItem(each, it)
		if t.stopped() && !t.begun(it) {
			each.forget(it.Index) // it may never begin, if another item fails
			return
		}
		each.next++
	}
	if len(each.open) == 0 && !t.stopped() {
		t.endEach(n, s, each)
	}
}

// parallelOf returns how many items of a for_each may be under way at a time in this task.
func (t steps) parallelOf(n *plan.Node) int {
	const defaultParallel = 16
	if t.Task.Part != nil {
		return t.Task.Part.Parallel
	}
	return cmp.Or(n.MaxParallel, defaultParallel)
}

// endEach ends a for_each whose items have ended.
func (t steps) endEach(n *plan.Node, s *statemachine.Step, each *begunItems) {
	if failed := t.Task.Steps[each.failedStep]; failed != nil {
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Error: stepFault(failed), Class: failed.Class})
		return
	}
	outputs := t.itemOutputs(n, s)
	if err := t.OutcomeOf(checkOutputSize(int64(len(outputs)))); err != nil {
		t.failStep(s.Key, err)
		return
	}
	store := t.value
	if t.Task.Part != nil {
		store = t.offload
	}
	t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: store(outputs)})
}

// itemsOf returns the items under way of a for_each. There are no more than max_parallel: a retry takes over agents of items whose turn has
// not come again.
func (t steps) itemsOf(n *plan.Node, s *statemachine.Step) *begunItems {
	if each := t.Plan.items[s.Key]; each != nil {
		return each
	}
	first := t.FirstItem(s.Key)
	each := &begunItems{next: first}
	for ; each.next-first < len(s.Items) && len(each.open) < t.parallelOf(n); each.next++ {
		it := &Item{Node: n, Index: each.next}
		if !t.begun(it) {
			break
		}
		each.open = append(each.open, each.next)
		t.checkItem(each, it)
	}
	each.due = slices.Clone(each.open)
	if t.Plan.items == nil {
		t.Plan.items = map[string]*begunItems{}
	}
	t.Plan.items[s.Key] = each
	return each
}

// begun reports whether a step of an item has had an event.
func (t steps) begun(it *Item) bool {
	return slices.ContainsFunc(it.Node.Children, func(child *plan.Node) bool { return t.Task.Steps[it.Key(child.ID)] != nil })
}

// moveItem moves the steps of an item that is under way.
func (t steps) moveItem(each *begunItems, it *Item) {
	failed := false
	for _, child := range it.Node.Children {
		key := it.Key(child.ID)
		if !failed || t.Task.Steps[key] != nil {
			t.move(child, key, it)
		}
		s := t.Task.Steps[key]
		failed = failed || s != nil && fatal(child, s)
	}
	if t.stopped() {
		each.due.add(it.Index)
		return
	}
	t.checkItem(each, it)
}

// checkItem records whether an item has ended, and whether it ends the for_each.
func (t steps) checkItem(each *begunItems, it *Item) {
	ended, failedStep := true, ""
	for _, child := range it.Node.Children {
		key := it.Key(child.ID)
		switch s := t.Task.Steps[key]; {
		case s != nil && s.State.Terminal() && fatal(child, s):
			failedStep = key
		case s != nil && s.State.Terminal(), s == nil && failedStep != "":
		default:
			ended = false
		}
	}
	if ended {
		each.open.remove(it.Index)
		each.due.remove(it.Index)
	}
	if failedStep != "" && it.Node.OnItemError != plan.OnErrorContinue {
		each.fail(it.Index, failedStep)
	}
}

// itemOutputs returns the output of a for_each: one object per item, or for the items that `collect` chooses.
func (t steps) itemOutputs(n *plan.Node, s *statemachine.Step) json.RawMessage {
	list := make([]map[string]json.RawMessage, 0, len(s.Items))
	for i, value := range s.Items {
		it := &Item{Node: n, Index: t.FirstItem(s.Key) + i, value: value}
		if n.Collect == "" || n.Collect == plan.CollectFailed && t.itemFailed(it) {
			list = append(list, t.itemOutput(it))
		}
	}
	return MustJSON(list)
}

// itemFailed reports whether a step of an item has failed.
func (t steps) itemFailed(it *Item) bool {
	return slices.ContainsFunc(it.Node.Children, func(child *plan.Node) bool {
		return t.Task.StepState(it.Key(child.ID)) == statemachine.StepFailed
	})
}

// itemOutput returns the output of an item: an object that maps the id of each step to its output or null. If a step failed, the
// object also contains "error", and the item itself under the name in `as`.
func (t steps) itemOutput(it *Item) map[string]json.RawMessage {
	n, object := it.Node, map[string]json.RawMessage{}
	for _, child := range n.Children {
		step := t.Task.Steps[it.Key(child.ID)]
		object[child.ID] = nil // null: the step did not run, failed, or has no output
		switch {
		case step == nil:
		case step.State == statemachine.StepFailed && step.Error != nil:
			object["error"] = MustJSON(step.Error)
		case !step.Output.IsZero():
			object[child.ID] = t.Fetch(step.Output)
		}
	}
	if _, named := object[n.As]; object["error"] != nil && !named {
		object[n.As] = t.Fetch(it.value)
	}
	return object
}

// checkOutputSize returns VALIDATION_ERROR for an output of a for_each that is too large.
func checkOutputSize(size int64) error {
	if size <= maxCollected {
		return nil
	}
	return fault.New(fault.ValidationError, "the outputs of all items have %d MiB, the limit is %d", size>>20, maxCollected>>20).
		WithReason("SIZE_LIMIT_EXCEEDED").WithHint("leave them out with `collect: none` or `collect: failed`, or let the steps write files, and pass on their paths")
}

// maxCollected limits the bytes of the output of a for_each.
const maxCollected = 16 << 20
