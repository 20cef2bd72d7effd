package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// earlyChild is a session in which a task waits for a child that is not submitted yet.
type earlyChild struct{ fakeSession }

const parentID, childID = events.TaskID("TASK_01JD0000000000000000000000"), events.TaskID("TASK_01JD0000000000000000000001")

func (*earlyChild) Explain(_ context.Context, r api.GetRequest) (api.ExplainReply, error) {
	if r.ID != parentID {
		return api.ExplainReply{}, fault.New(fault.NotFound, "there is no task %s", r.ID)
	}
	return api.ExplainReply{ID: r.ID, Causes: []api.Cause{{Kind: "child", Task: childID}}}, nil
}

func TestChildThatIsNotSubmittedYet(t *testing.T) {
	t.Parallel()
	left := maxPeopleTasks
	causes, err := onlyPeople(t.Context(), &earlyChild{}, parentID, &left)
	require.NoError(t, err)
	assert.Empty(t, causes, "the task does not wait for people")
	_, err = onlyPeople(t.Context(), &earlyChild{}, childID, &left)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "there is no such task to wait for")
}
