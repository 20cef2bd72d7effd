package decide

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// startEach evaluates and records the items of a for_each.
func (t steps) startEach(n *plan.Node, key string, sc plan.Scope) {
	items, err := n.Items(sc)
	if err = t.OutcomeOf(err, items...); err != nil {
		t.failStep(key, err)
		return
	}
	values := make([]events.Value, len(items))
	for i, raw := range items {
		values[i] = t.value(raw)
	}
	t.activate()
	t.Emit(events.StepExpanded, &events.Expanded{Step: key, Items: values})
}

const defaultParallel = 16

// eachItem moves the items of a for_each, at most max_parallel at a time, and ends it.
func (t steps) eachItem(n *plan.Node, s *statemachine.Step) {
	parallel := n.MaxParallel
	if parallel <= 0 {
		parallel = defaultParallel
	}
	active, failed := 0, ""
	first := t.Plan.ended[s.Key]
	for i := first; i < len(s.Items) && active < parallel; i++ {
		it := &Item{Node: n, Index: i, value: s.Items[i]}
		over, bad := t.oneItem(it, failed != "")
		switch {
		case !over:
			active++
		case i == first && (bad == "" || n.OnItemError == plan.OnErrorContinue):
			first++
		}
		if bad != "" && n.OnItemError != plan.OnErrorContinue {
			failed = bad
		}
	}
	t.Plan.recordEnded(s.Key, first)
	switch {
	case active > 0:
	case failed != "":
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Error: stepFault(t.Task.Steps[failed]), Class: t.Task.Steps[failed].Class})
	default:
		outputs := t.itemOutputs(n, s)
		if err := t.OutcomeOf(sizeOfItems(outputs)); err != nil {
			t.failStep(s.Key, err)
			return
		}
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.value(outputs)})
	}
}

// oneItem moves the steps of one item. It reports whether the item has ended, and the key of a step that made it fail. If noNew
// is set, an item that has not started counts as ended.
func (t steps) oneItem(it *Item, noNew bool) (over bool, bad string) {
	begun := false
	for _, child := range it.Node.Children {
		begun = begun || t.Task.Steps[it.Key(child.ID)] != nil
	}
	if noNew && !begun {
		return true, ""
	}
	over = true
	for _, child := range it.Node.Children {
		key := it.Key(child.ID)
		if bad == "" || t.Task.Steps[key] != nil {
			t.move(child, key, it)
		}
		s := t.Task.Steps[key]
		switch {
		case s != nil && s.State.Terminal():
			if fatal(child, s) {
				bad = key
			}
		case s == nil && bad != "":
		default:
			over = false
		}
	}
	return over, bad
}

// itemOutputs returns the output of a for_each: one object per item, with the output of each of its steps by id, or null. If a
// step failed, there are also "error" and, under its name, the item.
func (t steps) itemOutputs(n *plan.Node, s *statemachine.Step) json.RawMessage {
	list := make([]map[string]json.RawMessage, len(s.Items))
	for i := range s.Items {
		it := &Item{Node: n, Index: i}
		list[i] = map[string]json.RawMessage{}
		for _, child := range n.Children {
			step := t.Task.Steps[it.Key(child.ID)]
			list[i][child.ID] = nil // null: it did not run, failed, or has no output
			switch {
			case step == nil:
			case step.State == statemachine.StepFailed && step.Error != nil:
				list[i]["error"] = MustJSON(step.Error)
			case !step.Output.IsZero():
				list[i][child.ID] = t.Fetch(step.Output)
			}
		}
		if _, named := list[i][n.As]; list[i]["error"] != nil && !named {
			list[i][n.As] = t.Fetch(s.Items[i])
		}
	}
	return MustJSON(list)
}

// sizeOfItems refuses an output of a for_each that is too large.
func sizeOfItems(outputs json.RawMessage) error {
	if len(outputs) <= maxCollected {
		return nil
	}
	return fault.New(fault.ValidationError, "the outputs of all items have %d MiB, the limit is %d", len(outputs)>>20, maxCollected>>20).
		WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let the steps write files, and pass on their paths")
}

// maxCollected limits the bytes of the output of a for_each.
const maxCollected = 16 << 20
