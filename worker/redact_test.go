package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
