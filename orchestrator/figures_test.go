package orchestrator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
)

// waits checks how many tasks wait for people, also after a restart, when no history was read.
func (n *node) waits(approvals, questions int) *node {
	n.t.Helper()
	check := func(n *node) {
		f := n.Figures()
		assert.Equal(n.t, []int{approvals, questions}, []int{f.Approvals, f.Questions})
		assert.Equal(n.t, approvals == 0, f.OldestApproval.IsZero())
	}
	check(n)
	n.stop()
	next := start(n.t, n.log)
	check(next)
	return next
}

// A task is counted while it waits for a person, once, whatever it has asked and however it ends.
func TestWhatWaitsIsCounted(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submitAsking(2, 1, "low")
	oldest := n.Figures().OldestApproval
	assert.WithinDuration(t, time.Now(), oldest, time.Minute)
	n = n.waits(1, 0)
	n.submitAsking(1, 1, "low")
	n = n.waits(2, 0)
	list, err := n.Approvals(t.Context(), api.ApprovalsRequest{})
	require.NoError(t, err)
	require.Len(t, list.Approvals, 3)
	byTask := map[string]int{}
	for _, a := range list.Approvals {
		byTask[string(a.Task)]++
	}
	for _, a := range list.Approvals {
		if byTask[string(a.Task)] == 2 {
			_, err := n.decide(a.ID, "granted", "user:ada")
			require.NoError(t, err)
			byTask[string(a.Task)] = 0
			break
		}
	}
	n = n.waits(2, 0)

	question := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	n = n.waits(2, 1)
	_, err = n.answer(n.open().ID, ada)
	require.NoError(t, err)
	n = n.waits(2, 0)
	ids := map[events.TaskID]bool{question: true}
	for _, a := range list.Approvals {
		ids[a.Task] = true
	}
	for id := range ids {
		_, err := n.Cancel(t.Context(), api.CancelRequest{ID: id, Actor: "user:ada"})
		require.NoError(t, err)
	}
	n.waits(0, 0)
}
