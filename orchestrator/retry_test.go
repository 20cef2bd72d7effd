package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// A step that saw a failed need go on has to see the mended one.
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
	reply, err := n.Retry(t.Context(), orchestrator.RetryRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, reply.Reused, "only what no failed step comes before")
}
