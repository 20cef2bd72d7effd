package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// maxContinuations limits the tasks that are read to find those that continue a task. They have the name of that task.
const maxContinuations = 50

// continuation is a task that continues another one.
type continuation struct {
	line api.Summary
	from events.TaskID
	how  string
}

// successors finds the tasks that continue others.
type successors struct{ rd *reader }

// newest returns the newest task that continues a task which has failed or was cancelled: its retry or fork, or that of one of them.
// It looks at the newest tasks with the name of the task, and returns nil if it finds none.
func (su successors) newest(ctx context.Context, t *endedTask) (*api.Cause, error) {
	all, err := su.named(ctx, t)
	if err != nil {
		return nil, err
	}
	family := map[events.TaskID]bool{t.id: true}
	var newest *continuation
	for known := 0; known < len(family); {
		known = len(family)
		for i, c := range all {
			if family[c.from] {
				family[c.line.ID], newest = true, &all[i]
			}
		}
	}
	if newest == nil {
		return nil, nil //nolint:nilnil // nothing continues the task
	}
	id := newest.line.ID
	return &api.Cause{
		Kind: "continued", Task: id, Next: "orch get " + string(id),
		Sentence: fmt.Sprintf("The newest %s of it is %s: %s.", newest.how, newest.line.State, id),
	}, nil
}

// named returns the newest tasks with the name of a task that continue any task, the oldest first.
func (su successors) named(ctx context.Context, t *endedTask) ([]continuation, error) {
	pattern := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(t.name)
	page, err := su.rd.List(ctx, api.ListRequest{Name: pattern, Since: t.created, Limit: maxContinuations})
	if err != nil {
		return nil, err
	}
	var all []continuation
	for _, line := range slices.Backward(page.Tasks) {
		from, how, err := su.originOf(ctx, line.ID)
		if err != nil {
			return nil, err
		}
		if from != "" {
			all = append(all, continuation{line, from, how})
		}
	}
	return all, nil
}

// originOf returns the task that a task continues, and how; "" for none.
func (su successors) originOf(ctx context.Context, id events.TaskID) (from events.TaskID, how string, err error) {
	for stored, err := range su.rd.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return "", "", err
		}
		c, err := events.Decode(stored.Data)
		if err != nil || len(c.Events) == 0 {
			return "", "", err
		}
		if d, ok := c.Events[0].Data.(*events.Submitted); ok && d.ForkOf != "" {
			return d.ForkOf, "fork", nil
		} else if ok && d.RetryOf != "" {
			return d.RetryOf, "retry", nil
		}
		break
	}
	return "", "", nil
}

// endedTask is a task that can have been retried.
type endedTask struct {
	id      events.TaskID
	name    string
	created time.Time
}

// retriable returns a task if it can have been retried, nil otherwise.
func retriable(t *statemachine.Task) *endedTask {
	if t.State != statemachine.Failed && t.State != statemachine.Cancelled {
		return nil
	}
	return &endedTask{t.ID, t.Submitted.Name, t.CreatedAt}
}
