package rest_test

import (
	"context"
	"testing"

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
