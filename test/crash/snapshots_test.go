package crash_test

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

// checkSnapshots checks every stored checkpoint against the log: a checkpoint and the following commits give the same
// state as all commits (I5). A killed node may not have written a checkpoint, because it is derived data, but never a
// wrong one. It returns the number of stored checkpoints.
func checkSnapshots(ctx context.Context, store *bus.Store, r *crash.Report) (int, error) {
	stored := 0
	for task, ids := range r.Checkpoints {
		for _, id := range ids {
			data, err := store.Load(ctx, task, id)
			if fault.Has(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return stored, err
			}
			stored++
			if what := compare(ctx, store, task, data); what != "" {
				r.Violations = append(r.Violations, crash.Violation{Invariant: "I5", Task: task, What: "checkpoint " + id + " " + what})
			}
		}
	}
	return stored, nil
}

// compare returns how a checkpoint and the rest of the history differ from the whole history, or "".
func compare(ctx context.Context, store *bus.Store, task events.TaskID, data []byte) string {
	var snapshot api.Snapshot
	if err := json.Unmarshal(data, &snapshot); err != nil {
		return "is damaged: " + err.Error()
	}
	whole, err := fold(ctx, store, task, &statemachine.Task{})
	if err != nil {
		return "is of a task that cannot be folded: " + err.Error()
	}
	if snapshot.Task == nil || snapshot.Task.Rev != snapshot.Rev {
		return "is not of the revision that it names"
	}
	rest, err := fold(ctx, store, task, snapshot.Task)
	switch {
	case err != nil:
		return "cannot be followed by the rest of the history: " + err.Error()
	case rest != whole:
		return "and the rest of the history give " + rest + ", the whole history gives " + whole
	default:
		return ""
	}
}

// fold adds the commits that follow a state to it and returns it as text.
func fold(ctx context.Context, store *bus.Store, id events.TaskID, task *statemachine.Task) (string, error) {
	for s, err := range store.Read(ctx, id, task.Rev+1) {
		if err != nil {
			return "", err
		}
		c, err := events.Decode(s.Data)
		if err == nil {
			err = task.Fold(c, s.Data)
		}
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(task)
	return string(text), err
}
