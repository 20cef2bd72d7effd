package orchestrator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// Workplace says where the calls of a task have worked.
type Workplace struct {
	// Task is the task whose workspace the calls use: the task itself, its session, or the task of which it is a part.
	Task events.TaskID
	// Session is true for a session, and Parts for a task whose loops were divided: calls of other tasks have worked there.
	Session, Parts bool
	// Root is the folder that the calls are confined to; empty if any worker may execute them.
	Root string
	// Requester is the identity that the calls act for.
	Requester string
	// Tools are the tools of the calls that may have begun, and Workers the workers of those with effects, sorted.
	Tools, Workers []string
	// Secrets maps the sources of the secrets of the plan, such as env:DB_PASSWORD, to their names. A secret of a sub-plan is named by
	// its source.
	Secrets map[string]string
	// State is the state of the task, and Ended when it ended; zero while it goes on.
	State statemachine.State
	Ended time.Time
}

// Workplace returns where the calls of a task have worked. It returns STATE_NOT_ALLOWED with the reason IMPORTED for an imported
// task, whose calls have worked on another machine.
func (rd *reader) Workplace(ctx context.Context, id events.TaskID) (Workplace, error) {
	var place Workplace
	err := rd.engine.view(ctx, id, func(t *viewer) error {
		if t.e.imported != nil {
			return fault.New(fault.StateNotAllowed, "task %s was imported, and its files are where it ran", id).WithField("id").WithReason("IMPORTED")
		}
		place = t.workplace()
		place.Requester = rd.engine.requester(t.e)
		return nil
	})
	return place, err
}

// workplace returns where the calls of the task have worked, without the requester. mu must be held.
func (t *viewer) workplace() Workplace {
	task := t.e.task
	used, workers := map[string]bool{}, map[string]bool{}
	parts := false
	for _, s := range task.Steps {
		parts = parts || s.Child != "" && s.Tool == ""
		if s.Tool == "" || s.Attempt == 0 || s.State == statemachine.StepReady && s.Attempt == 1 {
			continue // it has not begun
		}
		used[s.Tool] = true
		if s.Worker != "" {
			workers[s.Worker] = true
		}
	}
	place := Workplace{
		Task: cmp.Or(decide.ContextOf(task), decide.HomeOf(task)), Session: decide.IsSession(task), Parts: parts, Root: task.Submitted.Root, State: task.State,
		Tools: slices.Sorted(maps.Keys(used)), Workers: slices.Sorted(maps.Keys(workers)), Secrets: secretNames(t.Plan.Program.Plan()),
	}
	if task.State.Terminal() {
		place.Ended = task.Since
	}
	return place
}

// secretNames returns the names of the secrets of a plan by their sources.
func secretNames(p *plan.Plan) map[string]string {
	names := map[string]string{}
	for _, source := range p.SecretSources() {
		names[source] = source
	}
	for name, source := range p.Secrets {
		names[source] = name
	}
	return names
}
