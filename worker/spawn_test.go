package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

type spawnIn struct {
	Prompt string `json:"prompt,omitempty"`
	Fail   bool   `json:"fail,omitempty"`
}

// spawner returns a tool that starts a child, and then fails if its arguments say so.
func spawner() tools.Tool {
	return tools.Define(tools.Spec{Name: "SPAWNER", Purpose: "test", Effect: tools.Idempotent, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true},
		func(_ context.Context, env *tools.Env, in spawnIn) (spawnIn, error) {
			env.Record(events.LogWritten, &events.Logged{Message: "m"})
			inputs, err := json.Marshal(in)
			if err != nil {
				return in, err
			}
			env.Spawn(tools.Spawn{Agent: "a", File: "f.yaml", Plan: []byte("orch: v1\n"), Inputs: inputs})
			if in.Fail {
				return in, fault.New(fault.ExecFailed, "after all")
			}
			return in, nil
		})
}

// A call that starts a child reports the child instead of an output, and keeps its facts.
func TestSpawn(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, spawner())
	o := b.Execute(t.Context(), call("SPAWNER", `{"prompt":"p"}`))
	require.Nil(t, o.Error)
	assert.Empty(t, o.Output)
	assert.Len(t, o.Facts, 1)
	assert.Equal(t, &work.Spawn{Agent: "a", File: "f.yaml", Plan: json.RawMessage(`"orch: v1\n"`), Inputs: json.RawMessage(`{"prompt":"p"}`)}, o.Spawn)

	o = b.Execute(t.Context(), call("SPAWNER", `{"fail":true}`))
	assert.Equal(t, fault.ExecFailed, o.Error.Code)
	assert.Nil(t, o.Spawn)
}

func TestSpawnIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{MaxOutput: 4096}, spawner())
	o := b.Execute(t.Context(), call("SPAWNER", `{"prompt":"`+strings.Repeat("x", 2048)+`"}`))
	require.Nil(t, o.Error)
	o = b.Execute(t.Context(), call("SPAWNER", `{"prompt":"`+strings.Repeat("x", 5000)+`"}`))
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", o.Error.Reason)
	assert.Nil(t, o.Spawn)
}
