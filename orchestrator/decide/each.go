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

// defaultParallel is the default of max_parallel.
const defaultParallel = 16

// moveItems moves the steps of the items of a for_each, at most max_parallel items at a time. It ends the for_each when its
// items have ended.
func (t steps) moveItems(n *plan.Node, s *statemachine.Step) {
	parallel := n.MaxParallel
	if parallel <= 0 {
		parallel = defaultParallel
	}
	active, failed := 0, ""
	first := t.Plan.ended[s.Key]
	for i := first; i < len(s.Items) && active < parallel; i++ {
		it := &Item{Node: n, Index: i, value: s.Items[i]}
		ended, failedStep := t.moveItem(it, failed != "")
		switch {
		case !ended:
			active++
		case i == first && (failedStep == "" || n.OnItemError == plan.OnErrorContinue):
			first++
		}
		if failedStep != "" && n.OnItemError != plan.OnErrorContinue {
			failed = failedStep
		}
	}
	t.Plan.recordEnded(s.Key, first)
	switch {
	case active > 0:
	case failed != "":
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Error: stepFault(t.Task.Steps[failed]), Class: t.Task.Steps[failed].Class})
	default:
		outputs := t.itemOutputs(n, s)
		if err := t.OutcomeOf(checkOutputSize(outputs)); err != nil {
			t.failStep(s.Key, err)
			return
		}
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.value(outputs)})
	}
}

// moveItem moves the steps of one item. It reports whether the item has ended, and the key of a step that made it fail. If
// noNew is set, an item that has not started counts as ended.
func (t steps) moveItem(it *Item, noNew bool) (ended bool, failedStep string) {
	begun := false
	for _, child := range it.Node.Children {
		begun = begun || t.Task.Steps[it.Key(child.ID)] != nil
	}
	if noNew && !begun {
		return true, ""
	}
	ended = true
	for _, child := range it.Node.Children {
		key := it.Key(child.ID)
		if failedStep == "" || t.Task.Steps[key] != nil {
			t.move(child, key, it)
		}
		s := t.Task.Steps[key]
		switch {
		case s != nil && s.State.Terminal():
			if fatal(child, s) {
				failedStep = key
			}
		case s == nil && failedStep != "":
		default:
			ended = false
		}
	}
	return ended, failedStep
}

// itemOutputs returns the output of a for_each: one object per item, which maps the id of each step to its output or null. If a
// step failed, the object also contains "error", and the item itself under the name in `as`.
func (t steps) itemOutputs(n *plan.Node, s *statemachine.Step) json.RawMessage {
	list := make([]map[string]json.RawMessage, len(s.Items))
	for i := range s.Items {
		it := &Item{Node: n, Index: i}
		list[i] = map[string]json.RawMessage{}
		for _, child := range n.Children {
			step := t.Task.Steps[it.Key(child.ID)]
			list[i][child.ID] = nil // null: the step did not run, failed, or has no output
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

// checkOutputSize returns VALIDATION_ERROR for an output of a for_each that is too large.
func checkOutputSize(outputs json.RawMessage) error {
	if len(outputs) <= maxCollected {
		return nil
	}
	return fault.New(fault.ValidationError, "the outputs of all items have %d MiB, the limit is %d", len(outputs)>>20, maxCollected>>20).
		WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let the steps write files, and pass on their paths")
}

// maxCollected limits the bytes of the output of a for_each.
const maxCollected = 16 << 20
