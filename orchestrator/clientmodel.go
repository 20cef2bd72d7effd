package orchestrator

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/sampling"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// The client of a task that offers sampling is asked for the answers of its model also by the tasks that the task has started: an
// agent that TASK_SPAWN starts is such a task. Their questions are among those of each task above.

// clientModel finds out what tasks ask the models of their clients.
type clientModel struct{ *engine }

// offersModel reports whether the client of a task answers questions to its model.
func offersModel(t *statemachine.Task) bool {
	return t.Submitted.Client != nil && slices.Contains(t.Submitted.Client.Asks, events.Sampling)
}

// share records which questions of a child the tasks above show, when they are durable, and wakes those who wait for one of
// these tasks. mu must be held.
func (cm clientModel) share(e *entry) {
	parent := e.task.Submitted.Parent
	if parent == nil || !offersModel(e.task) {
		return
	}
	var open []string
	for _, q := range e.task.Questions {
		if q.Kind == events.Sampling && q.Status == statemachine.QuestionOpen {
			open = append(open, q.ID)
		}
	}
	if slices.Equal(open, e.shared) {
		return
	}
	e.shared = open
	for parent != nil {
		above := cm.tasks[parent.Task]
		if above == nil || above.task == nil {
			return
		}
		above.notify()
		parent = above.task.Submitted.Parent
	}
}

// below returns the questions to the model of the client that the tasks below a task ask. mu must be held.
func (cm clientModel) below(e *entry) (all []api.QuestionView) {
	if !offersModel(e.task) {
		return nil
	}
	for _, s := range e.task.In(statemachine.StepRunning) {
		child := cm.tasks[s.Child]
		if s.Child == "" || child == nil || child.task == nil {
			continue
		}
		all = append(all, questionsOf(child.task, func(q *statemachine.Question) bool {
			return q.Status == statemachine.QuestionOpen && slices.Contains(child.shared, q.ID)
		})...)
		all = append(all, cm.below(child)...)
	}
	return all
}

// waits reports whether a task waits for people, or for the model of its client. mu must be held.
func (cm clientModel) waits(e *entry) bool {
	return waitsForPeople(e.task) || !e.task.State.Terminal() && len(cm.below(e)) > 0
}

// wholeRequest returns the parameters of the open question of a call that asks the model of a client: those in the history have only
// an excerpt of the conversation.
func (rd *reader) wholeRequest(ctx context.Context, q api.QuestionView) (params json.RawMessage, err error) {
	said, err := readBefore(ctx, rd.engine, q.Task, statemachine.AgentOf(q.Step), decide.Said{})
	if err != nil {
		return nil, err
	}
	err = rd.engine.view(ctx, q.Task, func(v *viewer) error {
		asked := v.Task.Question(q.ID)
		if params = q.Params; asked == nil || asked.Status != statemachine.QuestionOpen {
			return nil
		}
		var args models.CallArgs
		if err := json.Unmarshal(v.Task.Steps[q.Step].Args.Raw, &args); err != nil {
			return err
		}
		r, err := v.ModelRequest(args.Step, said)
		if err != nil || len(v.Missing) > 0 {
			return err
		}
		r.Model = sampling.HintOf(q.Params)
		params, err = sampling.Params(r)
		return err
	})
	return params, err
}
