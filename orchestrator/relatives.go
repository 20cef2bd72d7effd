package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// relatives finds the families of tasks and what their first commits say, from memory if possible.
type relatives struct {
	*core

	engine *engine
}

// holdsOf returns the holds that keep a task: on the task and on others of its family.
func (rl *relatives) holdsOf(ctx context.Context, id events.TaskID) ([]api.Hold, error) {
	if rl.cfg.Holds.Count() == 0 {
		return nil, nil
	}
	family, err := rl.familyOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return rl.cfg.Holds.Of(family), nil
}

// familyOf returns the topmost parent of a task that exists.
func (rl *relatives) familyOf(ctx context.Context, id events.TaskID) (events.TaskID, error) {
	seen, below := map[events.TaskID]bool{}, id
	for !seen[id] {
		seen[id] = true
		line, ok := rl.knownLine(id)
		if !ok {
			var err error
			line, err = rl.origin(ctx, id)
			if len(seen) > 1 && absent(err) {
				return below, nil // an imported child without its parent
			}
			if err != nil && !unreadableHistory(err) {
				return "", err
			}
		}
		if line.Parent == "" {
			return id, nil
		}
		below, id = id, line.Parent
	}
	return id, nil
}

// origin returns what the first commit of a task says: its name, labels and parent.
func (rl *relatives) origin(ctx context.Context, id events.TaskID) (api.Summary, error) {
	for stored, err := range rl.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return api.Summary{}, err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return api.Summary{}, err
		}
		line := api.Summary{ID: id}
		for _, e := range c.Events {
			if sub, ok := e.Data.(*events.Submitted); ok {
				line.Name, line.Labels = sub.Name, sub.Labels
				if sub.Parent != nil {
					line.Parent = sub.Parent.Task
				}
			}
		}
		return line, nil
	}
	return api.Summary{}, noTask(id)
}

// knownLine returns the line of a task that is in memory, with its labels.
func (rl *relatives) knownLine(id events.TaskID) (api.Summary, bool) {
	if line, ok := rl.cfg.Lists.Line(id); ok {
		return line, true
	}
	rl.lock()
	defer rl.unlock()
	line := rl.engine.listed.lines[id]
	if line == nil || line.Priority == "" { // it is from the log's index, without labels
		return api.Summary{}, false
	}
	return *line, true
}
