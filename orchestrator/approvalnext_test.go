package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// approval returns an approval by its id.
func (n *node) approval(id string) api.ApprovalView {
	n.t.Helper()
	r, err := n.Approvals(n.ctx(), api.ApprovalsRequest{ID: id})
	require.NoError(n.t, err)
	require.Len(n.t, r.Approvals, 1)
	return r.Approvals[0]
}

// blocking returns the ids of the expired approvals that block their tasks.
func (n *node) blocking() (ids []string) {
	n.t.Helper()
	r, err := n.Approvals(n.ctx(), api.ApprovalsRequest{Expired: true})
	require.NoError(n.t, err)
	for _, a := range r.Approvals {
		ids = append(ids, a.ID)
	}
	return ids
}

// An approval that has expired is listed as long as it blocks its task, with what it asked. After a resume it names the one that asks again.
func TestExpiredApprovalsLeadToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(guardedPlan)
		n.park("w", n.take("w"), ask())
		first := n.pending()
		assert.Empty(t, n.blocking(), "it is still pending")
		<-time.After(31 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{first.ID}, n.blocking())
		assert.Contains(t, n.view(id).Reason, `nobody decided about "allow WRITE in step a" by `)
		r, err := n.Approvals(n.ctx(), api.ApprovalsRequest{Expired: true})
		require.NoError(t, err)
		assert.JSONEq(t, `{"text":"hi"}`, string(r.Approvals[0].Args))
		assert.Empty(t, n.approval(first.ID).Next)

		_, err = n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:ada"})
		require.NoError(t, err)
		n.park("w", n.take("w"), ask())
		second := n.pending()
		assert.Empty(t, n.blocking())
		assert.Equal(t, second.ID, n.approval(first.ID).Next)
		assert.Empty(t, n.approval(second.ID).Next)
		n.stop()
	})
}

// An approval that escalates is replaced at once: the second one blocks the task, the first one leads to it.
func TestEscalatedApprovalsLeadToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		n.submit("{orch: v1, steps: [{id: a, approve: {description: go, timeout: 1m, on_expiry: escalate}}]}")
		first := n.pending()
		<-time.After(61 * time.Second)
		synctest.Wait()
		second := n.pending()
		assert.Equal(t, []string{first.ID, second.ID}, []string{second.Follows, n.approval(first.ID).Next})
		assert.Empty(t, n.blocking())
		<-time.After(61 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{second.ID}, n.blocking())
		n.stop()
	})
	n := start(t, memlog.New(memlog.Config{}))
	_, err := n.Approvals(n.ctx(), api.ApprovalsRequest{Expired: true, All: true})
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}
