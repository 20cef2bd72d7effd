package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/tools"
)

// The effect of a tool counts where the arguments do not say more.
func TestEffectOf(t *testing.T) {
	t.Parallel()
	type in struct {
		Method string `json:"method"`
	}
	intend := func(context.Context, *tools.Env, in) (tools.Intent, error) { return tools.Intent{}, nil }
	do := func(context.Context, *tools.Env, in) (in, error) { return in{}, nil }
	spec := tools.Spec{Name: "T", Purpose: "test", Effect: tools.Write}
	own := tools.WithEffect[in, in](tools.DefineIntent(spec, intend, do), func(i in) tools.Effect {
		return map[string]tools.Effect{"GET": tools.Read}[i.Method]
	})
	for args, want := range map[string]tools.Effect{`{"method":"GET"}`: tools.Read, `{"method":"POST"}`: tools.Write, `{}`: tools.Write, `{"method":1}`: tools.Write, ``: tools.Write} {
		assert.Equal(t, want, tools.EffectOf(own, json.RawMessage(args)), args)
	}
	plain := tools.Define(spec, do)
	assert.Equal(t, plain, tools.WithEffect[in, in](plain, func(in) tools.Effect { return tools.Read }))
	assert.Equal(t, tools.Write, tools.EffectOf(plain, json.RawMessage(`{"method":"GET"}`)))
	assert.Equal(t, tools.Write, tools.EffectOf(tools.DefineIntent(spec, intend, do), json.RawMessage(`{"method":"GET"}`)))
}
