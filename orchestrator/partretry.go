package orchestrator

import (
	"context"
	"reflect"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// This file repeats a for_each in parts of a failed task: parts that succeeded are not repeated, and of the others only the steps
// that did not succeed.

// addParts lets a retry of task e continue each of its for_each in parts that is repeated. A for_each whose needs are repeated,
// or were skipped, begins anew: its items may be others.
func (x *submitExtra) addParts(e *entry, repeated map[string]bool) {
	reused := func(id string) bool {
		return slices.ContainsFunc(x.reuse, func(r events.Reused) bool { return r.Step == id })
	}
	for _, n := range e.plan.Program.Steps() {
		s := e.task.Steps[n.ID]
		if s == nil || s.Divided == nil || !repeated[n.ID] || slices.ContainsFunc(n.Needs, func(id string) bool { return !reused(id) }) {
			continue
		}
		x.divided = append(x.divided, s.Divided)
		for _, part := range decide.Parts(e.task, s.Divided) {
			if part != nil && part.State == statemachine.StepSucceeded {
				x.reuse = append(x.reuse, events.Reused{Step: part.Key, From: e.id, Output: part.Output})
			}
		}
	}
}

// unfinishedParts returns the tasks of the parts that did not succeed, except for those of requested steps.
func unfinishedParts(t *statemachine.Task, requested map[string]bool) (tasks []events.TaskID) {
	for _, key := range t.Order {
		if d := t.Steps[key].Divided; d != nil && !requested[key] {
			for _, s := range decide.Parts(t, d) {
				if s != nil && s.Child != "" && s.State != statemachine.StepSucceeded {
					tasks = append(tasks, s.Child)
				}
			}
		}
	}
	return tasks
}

// checkParts returns IN_DOUBT if a call in one of the parts of a task may have had its effect.
func (pa parts) checkParts(ctx context.Context, id events.TaskID, parts []events.TaskID) error {
	for _, part := range parts {
		err := pa.inspect(ctx, part, func(e *entry) error {
			if key := doubtfulStep(e.task, nil); key != "" {
				return fault.New(fault.InDoubt, "it is unknown whether step %s took effect, in part %s", key, part).WithField("from").
					WithHint("orch retry %s --from %s runs all items again", id, decide.ItemOf(key))
			}
			return nil
		})
		if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

// reuseInPart returns the results that a part can reuse: those of the same part in the task that its parent continues, or in
// the one that that task continues.
func (pa parts) reuseInPart(ctx context.Context, origin events.TaskID, step string, d *events.Divided) ([]events.Reused, error) {
	for range maxParents {
		if origin == "" {
			return nil, nil
		}
		var former events.TaskID
		err := pa.inspect(ctx, origin, func(e *entry) error {
			origin = continuedBy(e.task)
			if each := e.task.Steps[d.Step]; each == nil || !reflect.DeepEqual(each.Divided, d) {
				origin = "" // its items are others
			} else if s := e.task.Steps[step]; s != nil {
				former = s.Child
			}
			return nil
		})
		switch {
		case absent(err):
			return nil, nil
		case err != nil:
			return nil, err
		case former != "":
			return pa.resultsOf(ctx, former)
		}
	}
	return nil, nil
}

// continuedBy returns the task whose failed and cancelled steps a task repeats; "" for none. A retry from a step repeats others as
// well.
func continuedBy(t *statemachine.Task) events.TaskID {
	if t.Submitted.KeyOf == "" {
		return ""
	}
	return t.Submitted.RetryOf
}

// maxReused limits the bytes of reused results inside the first commit of a part. The others are large values.
const maxReused = 1 << 20

// resultsOf returns the results of the steps of a part that succeeded.
func (pa parts) resultsOf(ctx context.Context, part events.TaskID) (all []events.Reused, err error) {
	err = pa.inspect(ctx, part, func(e *entry) error {
		for _, key := range e.task.Order {
			if s := e.task.Steps[key]; s.State == statemachine.StepSucceeded && s.Purpose == "" && decide.ItemOf(key) != "" {
				all = append(all, events.Reused{Step: key, From: part, Output: s.Output})
			}
		}
		return nil
	})
	if absent(err) {
		return nil, nil
	}
	size := 0
	for i := range all {
		v := &all[i].Output
		if size += len(v.Raw); size > maxReused && err == nil {
			err = pa.blobs.move(ctx, v)
		}
	}
	return all, err
}
