package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// S0-053: the grant that has let the first attempt through is that of the whole call, however long it takes and
// however often it loses its worker, and nobody else's, also when it is tried again.
func TestGrantLastsOverNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 3, initial: 1ms}}]}`)
		n.park("w", n.take("w"), ask())
		p := n.pending()
		_, err := n.decide(p.ID, "granted", "user:ada")
		require.NoError(t, err)
		require.NoError(t, n.note("w", n.begun("w"), handle))
		<-time.After(2 * time.Hour)
		n.stop()
		n = start(t, log, short)
		for range 3 { // also if the log records its start
			c := n.begun("w")
			require.NotNil(t, c.Grant)
			assert.Equal(t, p.ID, c.Grant.ID)
			outlast()
		}
		c := n.begun("w")
		assert.JSONEq(t, handle, string(c.Note))
		require.NoError(t, n.inquire("w", c, elicit("who")))
		_, err = n.answer(n.open().ID, ada)
		require.NoError(t, err)
		c = n.begun("w")
		assert.Equal(t, p.ID, c.Grant.ID)
		assert.JSONEq(t, handle, string(c.Note), "a question keeps the note")
		require.NoError(t, n.fail("w", c, "tool_error"))
		c = n.begun("w")
		require.NotNil(t, c.Grant, "it is tried again")
		require.NoError(t, n.fail("w", c, "timeout"))
		n.stop()
	})
}

// A call that runs only while its task awaits an approval continues with its grant.
func TestNoteWhileAwaiting(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		cat, err := tools.New(echo("DELETE", tools.Destructive, tools.AwaitingApproval))
		require.NoError(t, err)
		c.Catalogue = cat
	})
	id := n.submit(`{orch: v1, steps: [{id: a, tool: DELETE}]}`)
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	require.NoError(t, n.note("w", n.begun("w"), handle))
	c := n.take("w")
	assert.Equal(t, "AWAITING_APPROVAL", c.State)
	require.NotNil(t, c.Grant)
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A call with a note continues like a running one, whatever its task waits for meanwhile.
func TestNoteWhileTheTaskWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(`{orch: v1, steps: [
			{id: a, tool: WRITE}, {id: b, tool: READ}, {id: ok, needs: [b], approve: {description: d, timeout: 20s}}]}`)
		calls := map[string]work.Call{}
		for range 2 {
			c := n.take("w")
			calls[c.Step] = c
		}
		require.NoError(t, n.report("w", calls["b"], `{}`))
		require.NoError(t, n.Start(n.ctx(), startedBy("w", calls["a"])))
		require.NoError(t, n.note("w", calls["a"], handle))
		assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
		c := n.take("w")
		assert.JSONEq(t, handle, string(c.Note))
		assert.Equal(t, "IN_PROGRESS", c.State, "its gate has let it through before")
		<-time.After(30 * time.Second) // its worker is lost, and nobody decides
		synctest.Wait()
		assert.Equal(t, statemachine.Blocked, n.view(id).State)
		c = n.take("w")
		assert.JSONEq(t, handle, string(c.Note))
		assert.Equal(t, "IN_PROGRESS", c.State)
		require.NoError(t, n.report("w", c, `{}`))
		assert.Equal(t, statemachine.StepSucceeded, n.step(id, "a").State)
		assert.Equal(t, statemachine.Blocked, n.view(id).State)
		require.NoError(t, n.cancel(id))
		assert.Equal(t, statemachine.Cancelled, n.result(id).State)
		n.checkIdle()
		n.stop()
	})
}

// A task that awaits an approval does not end before what it has started elsewhere ends.
func TestEndWhileNotedAndAwaiting(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: READ}, {id: c, tool: READ}, {id: ok, needs: [c], approve: {description: d}}]}`)
	calls := map[string]work.Call{}
	for range 3 {
		c := n.take("w")
		calls[c.Step] = c
	}
	require.NoError(t, n.report("w", calls["c"], `{}`))
	assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
	require.NoError(t, n.note("w", calls["a"], handle))
	require.NoError(t, n.fail("w", calls["b"], "tool_error"))
	c := n.take("w")
	assert.JSONEq(t, handle, string(c.Note))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Equal(t, statemachine.StepSucceeded, n.step(id, "a").State)
	n.checkIdle()
}

// A call with a note that needs an approval keeps its note meanwhile.
func TestApprovalAfterANote(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.note("w", n.begun("w"), handle))
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	c := n.take("w")
	assert.JSONEq(t, handle, string(c.Note))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}
