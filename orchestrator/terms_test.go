package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// A plan can say how many people, and who, decide about a call.
func TestWhoDecidesAboutACall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, approval: {from: [user:ada, user:bob], quorum: 2}}]}`)
	n.park("w", n.take("w"), ask())
	p := n.pending()
	assert.Equal(t, []string{"user:ada", "user:bob"}, p.From)
	assert.Equal(t, 2, p.Quorum)
	_, err := n.decide(p.ID, "granted", "user:eve")
	require.Equal(t, fault.Forbidden, fault.CodeOf(err))
	require.ErrorContains(t, err, "user:ada or user:bob")
	_, err = n.decide(p.ID, "rejected", "user:eve")
	require.Equal(t, fault.Forbidden, fault.CodeOf(err))
	for _, who := range p.From {
		_, err = n.decide(p.ID, "granted", who)
		require.NoError(t, err)
	}
	c := n.take("w")
	require.NotNil(t, c.Grant)
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// The same applies to an approve step.
func TestWhoDecidesAboutAStep(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: ok, approve: {description: "Go?", from: [user:ada]}}]}`)
	p := n.pending()
	_, err := n.decide(p.ID, "granted", "user:eve")
	require.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A plan can say how long a call waits for its approval, and what happens if nobody decides.
func TestApprovalOfACallExpires(t *testing.T) {
	t.Parallel()
	for expiry, want := range map[string]struct {
		task statemachine.State
		step statemachine.StepState
	}{
		"fail":     {statemachine.Failed, statemachine.StepFailed},
		"continue": {statemachine.Done, statemachine.StepSkipped},
		"block":    {statemachine.Blocked, statemachine.StepParked},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}))
			id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, approval: {timeout: 4h, on_expiry: ` + expiry + `}}, {id: b, needs: [a], set: {x: 1}}]}`)
			n.park("w", n.take("w"), ask())
			<-time.After(4*time.Hour - time.Second)
			synctest.Wait()
			assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State, expiry)
			<-time.After(2 * time.Second)
			synctest.Wait()
			assert.Equal(t, want.task, n.view(id).State, expiry)
			assert.Equal(t, want.step, n.step(id, "a").State, expiry)
			n.checkReplay(id)
		})
	}
}

// It escalates once.
func TestApprovalOfACallEscalates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, approval: {timeout: 1h, on_expiry: escalate, from: [user:ada]}}]}`)
		n.park("w", n.take("w"), ask())
		first := n.pending()
		<-time.After(61 * time.Minute)
		synctest.Wait()
		second := n.pending()
		assert.Equal(t, first.ID, second.Follows)
		assert.Equal(t, "critical", second.Priority)
		assert.Equal(t, []string{"user:ada"}, second.From)
		_, err := n.decide(second.ID, "granted", "user:ada")
		require.NoError(t, err)
		assert.NotNil(t, n.take("w").Grant)
	})
}
