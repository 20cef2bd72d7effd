package toolinfo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/toolinfo"
)

type in struct {
	FilePath string `json:"file_path" jsonschema:"A file"`
	DryRun   bool   `json:"dry_run,omitempty" jsonschema:"Only a preview"`
}

type out struct {
	Lines int `json:"lines" jsonschema:"Lines written"`
}

func TestOf(t *testing.T) {
	t.Parallel()
	info := toolinfo.Of(tools.Define(tools.Spec{
		Name: "FILE_MEND", Title: "Mend", Purpose: "Mend a file", Conditions: []string{"Any task state"},
		Effect: tools.Write, Gate: tools.AnyState, Approval: tools.NoApproval,
		Paths: []tools.Path{{Field: "file_path", Access: tools.WritePath}},
	}, func(context.Context, *tools.Env, in) (out, error) { return out{}, nil }))

	assert.Equal(t, "FILE_MEND", info.Name)
	assert.Equal(t, plan.Effect(tools.Write), info.Effect)
	assert.Equal(t, plan.Effect(tools.Write), info.EffectOf(nil))
	assert.True(t, info.AnyState)
	assert.Equal(t, []string{"file_path"}, info.Paths)
	assert.Equal(t, []string{"file_path"}, info.Required)
	assert.ElementsMatch(t, []string{"file_path", "dry_run"}, info.Properties)
	assert.Contains(t, string(info.Input()), "dry_run")
	assert.Contains(t, string(info.Output()), "lines")
	_, err := info.Check(json.RawMessage(`{"file_path":7}`))
	require.Error(t, err)
}
