package rest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/statemachine"
)

// people is an API of a node in which tasks wait for people.
type people struct{ api.API }

func (people) Approvals(context.Context, api.ApprovalsRequest) (api.ApprovalsReply, error) {
	return api.ApprovalsReply{Approvals: []api.ApprovalView{{}}, Omitted: 4}, nil
}

func (people) Questions(context.Context, api.QuestionsRequest) (api.QuestionsReply, error) {
	return api.QuestionsReply{Questions: []api.QuestionView{{Task: "TASK_ASKS"}, {Task: "TASK_ASKS"}}}, nil
}

func (people) List(_ context.Context, r api.ListRequest) (api.ListReply, error) {
	if r.Stuck {
		return api.ListReply{Tasks: []api.Summary{{ID: "TASK_STUCK", State: statemachine.NeedsAction}}}, nil
	}
	blocked := func(id events.TaskID, block string) api.Summary {
		return api.Summary{ID: id, State: statemachine.Blocked, Block: block}
	}
	return api.ListReply{Tasks: []api.Summary{
		blocked("TASK_ASKS", "input"), blocked("TASK_DOUBTS", "input"), blocked("TASK_EXPIRED", "expired"), {ID: "TASK_FAILED", State: statemachine.Failed},
	}}, nil
}

// A task in doubt is blocked for input like one that asks, but it asks nothing. Each entry of the inbox is counted once: the sum of
// the counts is their number.
func TestInboxCountsEachEntryOnce(t *testing.T) {
	t.Parallel()
	count, err := rest.CountInbox(t.Context(), people{})
	require.NoError(t, err)
	assert.Equal(t, rest.Inbox{Approvals: 5, Questions: 2, InDoubt: 1, Dead: 2, Stuck: 1}, count)
}

// growing is an API of a node whose stuck tasks grow without a change of a task.
type growing struct {
	api.API

	stuck *atomic.Int64
}

func (g growing) List(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	if r.Stuck {
		return api.ListReply{Tasks: make([]api.Summary, g.stuck.Load())}, nil
	}
	return g.API.List(ctx, r)
}

// An open stream learns within two seconds that a task is stuck, although no task has changed, and one count serves all streams.
func TestStuckTasksAreSent(t *testing.T) {
	t.Parallel()
	var stuck, counted atomic.Int64
	feed := rest.NewFeed(rest.FeedConfig{Stuck: func() int { counted.Add(1); return int(stuck.Load()) }})
	t.Cleanup(feed.Close)
	s := newSite(t, func(c *rest.Config) { c.Feed, c.API = feed, growing{c.API, &stuck} })
	assert.Zero(t, counted.Load(), "nobody listens")
	all := []*eventsOf{s.stream(rest.Operator, "/events"), s.stream(rest.Viewer, "/events")}
	for _, one := range all {
		assert.Contains(t, one.next().data, `"stuck":0`)
	}
	began, before := time.Now(), counted.Load()
	stuck.Store(2)
	for _, one := range all {
		assert.Contains(t, one.next().data, `"stuck":2`)
	}
	took := time.Since(began)
	assert.LessOrEqual(t, counted.Load()-before, int64(took/time.Second)+1, "one count a second, also for two streams")
}
