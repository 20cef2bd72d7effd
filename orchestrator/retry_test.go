package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/statemachine"
)

// A step that handled the failure of a need must see the repaired result.
func TestRetryRepeatsWhatNeededAFailedStep(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(`
orch: v1
steps:
  - {id: kept, tool: READ, with: {n: 1}}
  - {id: bad, tool: READ, with: {text: fail}, on_error: continue}
  - {id: after, tool: READ, needs: [bad], with: {n: 2}}
  - {id: end, tool: READ, needs: [after], with: {text: fail}}
`)
	require.Equal(t, statemachine.Failed, n.result(id).State)
	reply, err := n.Retry(t.Context(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, reply.Reused, "only what no failed step comes before")
}

// A task that was retried in any way has left the dead letter, also after a restart. A second retry is another task, and a
// redrive returns the first one.
func TestRetryLeavesTheDeadLetter(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "a"} {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit(onePlan)
		require.NoError(t, n.fail("w", n.take("w"), "denied"))
		require.Equal(t, statemachine.Failed, n.result(id).State)
		require.Equal(t, []events.TaskID{id}, n.deadList())

		first, err := n.Retry(t.Context(), api.RetryRequest{ID: id, From: from})
		require.NoError(t, err)
		assert.False(t, first.Existing)
		assert.Empty(t, n.deadList(), "from %q", from)
		second, err := n.Retry(t.Context(), api.RetryRequest{ID: id, From: from})
		require.NoError(t, err)
		assert.False(t, second.Existing)
		assert.NotEqual(t, first.ID, second.ID)
		redriven, err := n.Redrive(t.Context(), api.RedriveRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, first.ID, redriven.ID)
		assert.True(t, redriven.Existing)
		n.stop()

		assert.Empty(t, start(t, log).deadList(), "from %q", from)
	}
}
