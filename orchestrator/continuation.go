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

// of returns the tasks that continue a task which has ended: its retries and forks, and those of them, the oldest first. It looks at
// the newest tasks with the name of the task.
func (su successors) of(ctx context.Context, t *endedTask) ([]continuation, error) {
	all, err := su.named(ctx, t)
	if err != nil {
		return nil, err
	}
	family, found := map[events.TaskID]bool{t.id: true}, []continuation(nil)
	for known := 0; known < len(family); {
		known = len(family)
		for _, c := range all {
			if family[c.from] && !family[c.line.ID] {
				family[c.line.ID], found = true, append(found, c)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b continuation) int { return a.line.CreatedAt.Compare(b.line.CreatedAt) })
	return found, nil
}

// describe adds to an explanation the tasks that continue a task, and says of one that has failed or was cancelled how the newest stands.
func (su successors) describe(ctx context.Context, t *endedTask, reply *api.ExplainReply) {
	found, err := su.of(ctx, t)
	if err != nil || len(found) == 0 {
		return // without them the answer is still true
	}
	for _, c := range found {
		reply.Continued = append(reply.Continued, api.Continued{
			Task: c.line.ID, From: c.from, How: c.how, Name: c.line.Name, State: c.line.State, CreatedAt: c.line.CreatedAt,
		})
	}
	if newest := reply.Continued[len(found)-1]; t.unfinished {
		reply.Causes = append(reply.Causes, api.Cause{
			Kind: "continued", Task: newest.Task, Next: "orch get " + string(newest.Task),
			Sentence: fmt.Sprintf("The newest %s of it is %s: %s.", newest.How, newest.State, newest.Task),
		})
	}
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

// endedTask is a task that can have been retried or forked. unfinished is set for one that has failed or was cancelled.
type endedTask struct {
	id         events.TaskID
	name       string
	created    time.Time
	unfinished bool
}

// endedOf returns a task if it has ended, nil otherwise.
func endedOf(t *statemachine.Task) *endedTask {
	if !t.State.Terminal() || t.Submitted == nil {
		return nil
	}
	return &endedTask{t.ID, t.Submitted.Name, t.CreatedAt, t.State == statemachine.Failed || t.State == statemachine.Cancelled}
}
