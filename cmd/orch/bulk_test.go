package main

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// stateSession is a session with a task in a state.
type stateSession struct {
	session

	state statemachine.State
}

// Get implements api.API.
func (s stateSession) Get(context.Context, api.GetRequest) (api.TaskView, error) {
	return api.TaskView{ID: taskID, State: s.state}, nil
}

// A task that has changed its state since it was selected is left alone, and so is everything after an interruption.
func TestBulkChecksEachTaskAgain(t *testing.T) {
	t.Parallel()
	var done []string
	b := bulk{verb: "cancel", do: func(_ context.Context, _ session, item bulkItem) (string, error) {
		done = append(done, item.ID)
		return "CANCELLED", nil
	}}
	item := bulkItem{ID: string(taskID), Task: taskID, State: "BLOCKED"}
	_, err := b.one(t.Context(), stateSession{state: statemachine.InProgress}, item)
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	assert.Contains(t, err.Error(), "it was BLOCKED, and is IN_PROGRESS")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = b.one(ctx, stateSession{state: statemachine.Blocked}, item)
	require.True(t, fault.Has(err, fault.Cancelled), "%v", err)
	assert.Empty(t, done)
	result, err := b.one(t.Context(), stateSession{state: statemachine.Blocked}, item)
	require.NoError(t, err)
	assert.Equal(t, "CANCELLED", result)
	assert.Equal(t, []string{string(taskID)}, done)
}

// The digest of a set depends on the ids alone, in any order.
func TestDigestOfASet(t *testing.T) {
	t.Parallel()
	a, b := bulkItem{ID: "a", State: "DONE"}, bulkItem{ID: "b"}
	assert.Equal(t, setDigest([]bulkItem{a, b}), setDigest([]bulkItem{b, {ID: "a", State: "FAILED"}}))
	assert.NotEqual(t, setDigest([]bulkItem{a, b}), setDigest([]bulkItem{a}))
	assert.NotEqual(t, setDigest([]bulkItem{{ID: "ab"}}), setDigest([]bulkItem{a, b}))
}

// After the node has stopped to answer nothing more is tried, and the exit code says so.
func TestBulkEndsWithTheNode(t *testing.T) {
	t.Parallel()
	tried := 0
	fails := []error{fault.New(fault.StateNotAllowed, "no"), nil, fault.New(fault.Unavailable, "gone")}
	b := bulk{connector: &connector{env: &env{err: io.Discard}}, verb: "cancel", do: func(context.Context, session, bulkItem) (string, error) {
		tried++
		return "CANCELLED", fails[tried-1]
	}}
	r := bulkReport{Items: slices.Repeat([]bulkItem{{ID: string(taskID), Task: taskID, State: "BLOCKED"}}, 5), Count: 5}
	err := b.actOnEach(t.Context(), stateSession{state: statemachine.Blocked}, &r)
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	assert.Equal(t, 3, tried)
	assert.Equal(t, []int{1, 4}, []int{r.Done, r.Failed})
	assert.Contains(t, r.Items[4].Error.Message, "not tried")
}
