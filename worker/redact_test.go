package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

func TestToolsLogNoSecrets(t *testing.T) {
	t.Parallel()
	const hidden = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	b := newBench(t, worker.Config{}, readTool("TELL", func(ctx context.Context, env *tools.Env) (string, error) {
		log := env.Log.With(slog.String("with", hidden)).WithGroup("group")
		log.InfoContext(ctx, "said "+hidden, slog.String("text", "x "+hidden), slog.Int("number", 7),
			slog.Group("inner", slog.String("deep", hidden)), slog.Any("error", errors.New("not with "+hidden)),
			slog.String("password", "hunter2hunter2"))
		return "done", nil
	}))
	out := b.Execute(t.Context(), work.Call{Ref: work.Ref{Task: task, Step: "a", Attempt: 1}, Tool: "TELL", State: "IN_PROGRESS"})
	require.Nil(t, out.Error)
	said := b.log.String()
	assert.NotContains(t, said, hidden)
	assert.NotContains(t, said, "hunter2")
	assert.Contains(t, said, `"text":"x [REDACTED:github_token]","number":7`)
	assert.Contains(t, said, `"deep":"[REDACTED:github_token]"`)
	assert.Contains(t, said, `"tool":"TELL"`)
}

// An output may be nested 256 deep, whatever the number of its brackets.
func TestNestedOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{})
	nested := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", depth-1) + "{}" + strings.Repeat("]", depth-1))
	}
	flat := json.RawMessage("[" + strings.Repeat(`{},"[",`, 500) + "[]]")
	for _, output := range []json.RawMessage{nested(256), flat, json.RawMessage(`"` + strings.Repeat("[{", 500) + `"`)} {
		clean, err := b.Vet(output)
		require.NoError(t, err)
		assert.Equal(t, output, clean)
	}
	_, err := b.Vet(nested(257))
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", fault.From(err).Reason)
}
