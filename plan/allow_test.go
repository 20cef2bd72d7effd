package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	const begin = "orch: v1\ninputs: {additionalProperties: true}\n"
	const end = "\nsteps: [{id: a, set: {x: 1}}]\n"
	pr := compile(t, begin+"allow: {paths: ['${{ inputs.dir }}/out', 'a$${{b'], endpoints: ['${{ inputs.url }}']}"+end)
	got, err := pr.Allow(plan.Scope{Inputs: json.RawMessage(`{"dir":"docs","url":"https://h:443"}`)})
	require.NoError(t, err)
	assert.Equal(t, &plan.Allow{Paths: []string{"docs/out", "a${{b"}, Endpoints: []string{"https://h:443"}}, got)

	plain := compile(t, begin+"allow: {paths: [docs]}"+end)
	got, err = plain.Allow(plan.Scope{})
	require.NoError(t, err)
	assert.Same(t, plain.Plan().Allow, got)
	got, err = compile(t, begin+end).Allow(plan.Scope{})
	require.NoError(t, err)
	assert.Nil(t, got)

	for inputs, message := range map[string]string{
		`{"dir":"d","url":7}`:     "is a number, but a text is expected",
		`{"dir":"d","url":""}`:    "is an empty text, but a text is expected",
		`{"dir":"d","url":null}`:  "is null, but a text is expected",
		`{"dir":"d","url":["x"]}`: "is a list, but a text is expected",
	} {
		_, err := pr.Allow(plan.Scope{Inputs: json.RawMessage(inputs)})
		f := fault.From(err)
		assert.Equal(t, fault.ValidationError, f.Code, inputs)
		assert.Equal(t, "allow.endpoints[0]", f.Field, inputs)
		assert.Equal(t, message, f.Message, inputs)
	}
}
