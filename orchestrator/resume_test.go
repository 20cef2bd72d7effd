package orchestrator_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const keptState = `{"n":12345678901234567890,"word":"gr\u00fc\u00df","none":null}`

func (n *node) checkpointed(id events.TaskID) string {
	n.t.Helper()
	r, err := n.Checkpoint(n.ctx(), api.CheckpointRequest{Task: id, Name: "c", State: json.RawMessage(keptState)})
	require.NoError(n.t, err)
	return r.Checkpoints[0].ID
}

// restores returns how often the history of a task records a restore, and the kinds of the events in the same commit.
func (n *node) restores(id events.TaskID) (count int, with []events.Kind) {
	n.t.Helper()
	for stored, err := range n.log.Read(n.ctx(), id, 1) {
		require.NoError(n.t, err)
		c, err := events.Decode(stored.Data)
		require.NoError(n.t, err)
		for i, e := range c.Events {
			if e.Kind == events.CheckpointRestored {
				count++
				with = nil
				for _, after := range c.Events[i+1:] {
					with = append(with, after.Kind)
				}
			}
		}
	}
	return count, with
}

// a paused task is restored from its checkpoint and continues, in one commit; a repetition changes nothing.
func TestResumeAtACheckpoint(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(onePlan)
	point := n.checkpointed(id)
	n.pause(api.PauseRequest{ID: id})
	n.stop()
	n = start(t, log)
	r := api.PauseRequest{ID: id, Checkpoint: point}
	was, err := n.Resume(n.ctx(), r)
	require.NoError(t, err)
	require.NotNil(t, was.Restored)
	assert.JSONEq(t, keptState, string(was.Restored.State))
	assert.Contains(t, string(was.Restored.State), "12345678901234567890")
	assert.Equal(t, point, was.Restored.CheckpointID)
	assert.False(t, was.Task.Paused)
	n.stop()

	n = start(t, log)
	again, err := n.Resume(n.ctx(), r)
	require.NoError(t, err)
	assert.True(t, was.Restored.At.Equal(again.Restored.At))
	count, with := n.restores(id)
	assert.Equal(t, 1, count)
	assert.Contains(t, with, events.TaskResumed)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(id)
}

// A task that is blocked by an expired approval asks again.
func TestResumeAtACheckpointUnblocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(guardedPlan)
		n.park("w", n.take("w"), ask())
		point := n.checkpointed(id)
		<-time.After(31 * time.Minute)
		synctest.Wait()
		require.Equal(t, statemachine.Blocked, n.view(id).State)
		_, err := n.Resume(n.ctx(), api.PauseRequest{ID: id, Checkpoint: point})
		require.NoError(t, err)
		_, with := n.restores(id)
		assert.Contains(t, with, events.TaskUnblocked)
		assert.Equal(t, statemachine.InProgress, n.view(id).State)
		n.stop()
	})
}

// A resume that is not possible at a checkpoint says why, and leaves the task unchanged.
func TestResumeAtACheckpointRefused(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id, other := n.submit(onePlan), n.submit(onePlan)
	own, foreign := n.checkpointed(id), n.checkpointed(other)
	refused := func(code fault.Code, r api.PauseRequest) *fault.Error {
		t.Helper()
		_, err := n.Resume(n.ctx(), r)
		hasCode(t, err, code)
		assert.NotEmpty(t, fault.From(err).Hint)
		return fault.From(err)
	}
	assert.Contains(t, refused(fault.StateNotAllowed, api.PauseRequest{ID: id, Checkpoint: own}).Hint, "orch pause")
	n.pause(api.PauseRequest{ID: id})
	assert.Equal(t, "checkpoint", refused(fault.NotFound, api.PauseRequest{ID: id, Checkpoint: "CHECKPOINT_x"}).Field)
	assert.Equal(t, "checkpoint", refused(fault.Forbidden, api.PauseRequest{ID: id, Checkpoint: foreign}).Field)
	assert.Equal(t, "checkpoint", refused(fault.ValidationError, api.PauseRequest{Queue: "q", Checkpoint: own}).Field)
	_, err := n.Pause(n.ctx(), api.PauseRequest{ID: id, Checkpoint: own})
	hasCode(t, err, fault.ValidationError)
	assert.True(t, n.view(id).Paused)
	require.NoError(t, n.cancel(id))
	n.result(id)
	assert.Contains(t, refused(fault.StateNotAllowed, api.PauseRequest{ID: id, Checkpoint: own}).Hint, "orch retry")
	count, _ := n.restores(id)
	assert.Zero(t, count)
}
