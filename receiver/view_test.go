package receiver_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/hooks"
)

func TestBriefViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	d := github()
	d.Plan, d.Inputs = json.RawMessage(`{"orch":"v1","name":"ship"}`), json.RawMessage(`{"a":1}`)
	w.put(r, "json", d)
	d.Plan = json.RawMessage(`"orch: v1\nname: sail\n"`)
	w.put(r, "text", d)
	w.put(r, "unnamed", github())
	w.put(r, "signal", hooks.Definition{Provider: hooks.GitHub, Signal: &hooks.Signal{Task: "t", Name: "go", Data: json.RawMessage(`1`)}})
	r = w.start()
	brief, err := r.Hooks(t.Context(), api.HooksRequest{Brief: true})
	require.NoError(t, err)
	names := map[string]string{}
	for _, h := range brief.Hooks {
		names[h.Name] = h.PlanName
		assert.Empty(t, h.Definition.Plan)
		assert.Empty(t, h.Definition.Inputs)
	}
	assert.Equal(t, map[string]string{"json": "ship", "text": "sail", "unnamed": "", "signal": ""}, names)
	assert.Equal(t, &hooks.Signal{Task: "t", Name: "go"}, brief.Hooks[1].Definition.Signal)
	assert.Equal(t, d.Plan, w.view(r, "text").Definition.Plan, "the definition itself is whole")
	assert.NotEmpty(t, w.view(r, "signal").Definition.Signal.Data)
}
