package node_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// A redrive of an agent whose limit is used up would end in the same way. Explain names what helps.
func TestExplainOfExhaustedAgent(t *testing.T) {
	t.Parallel()
	for limit, field := range map[string]string{"max_turns: 1": "agent.max_turns", "budget: {tokens: 10}": "agent.budget.tokens"} {
		n := talking(t, "  - {calls: [{tool: NO_TOOL, args: {}}]}\n  - text: Done.\n")
		id := submit(t, n.API(), "orch: v1\nname: a\nsteps:\n  - id: look\n    agent: {model: \"script:talk\", prompt: hi, tools: [FILE_READ], "+limit+"}\n")
		r := result(t, n.API(), id)
		require.Equal(t, statemachine.Failed, r.State)
		require.Equal(t, fault.QuotaExceeded, r.Error.Code, "%v", r.Error)
		why, err := n.API().Explain(t.Context(), api.GetRequest{ID: id})
		require.NoError(t, err)
		require.Len(t, why.Causes, 1)
		assert.Equal(t, "orch retry "+string(id)+" --from look", why.Causes[0].Next)
		assert.Contains(t, why.Causes[0].Sentence, "Raise "+field+" in the plan")

		again, err := n.API().Redrive(t.Context(), api.RedriveRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, fault.QuotaExceeded, result(t, n.API(), again.ID).Error.Code)
	}
}

// The hint of the error is part of the explanation.
func TestExplainGivesTheHint(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	id := submit(t, n.API(), "orch: v1\nname: a\nsteps:\n  - id: look\n    agent: {model: \"gone/x\", prompt: hi}\n")
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	why, err := n.API().Explain(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	require.Len(t, why.Causes, 1)
	assert.Contains(t, why.Causes[0].Sentence, `there is no provider "gone". Hint: set one up under models in the settings; orch models list shows how.`)
	assert.Equal(t, "orch redrive "+string(id), why.Causes[0].Next)
}
