package orchestrator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/statemachine"
)

// The steps of a matrix run once for each combination of its axes.
func TestMatrixRuns(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(`
orch: v1
inputs: {properties: {words: {type: array}}}
steps:
  - id: all
    matrix: {n: [1, 2], text: "${{ inputs.words }}", exclude: [{n: 2, text: b}]}
    on_item_error: continue
    do:
      - {id: call, tool: READ, with: {text: "${{ matrix.text }}", n: "${{ matrix.n + index }}"}}
outputs: {all: "${{ map(steps.all.output, .call?.n ?? .error.name) }}"}
`, func(r *api.SubmitRequest) { r.Inputs = json.RawMessage(`{"words":["a","b","fail"]}`) })
	reply := n.result(id)
	require.Equal(t, statemachine.Done, reply.State, "%v", reply.Error)
	assert.JSONEq(t, `{"all":[1,2,"EXEC_FAILED",5,"EXEC_FAILED"]}`, string(reply.Output))
}
