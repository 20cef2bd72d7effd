package proc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/secret"
)

// TestRunTakesSecretsOut runs a program that writes its secret in parts, on both streams, and across the limit of the
// stored output.
func TestRunTakesSecretsOut(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery"
	r := newRunner(t, proc.Config{})
	c := proc.Command{
		Name: "sh", Dir: t.TempDir(), Env: map[string]string{"DB_PASSWORD": value, "START": value[:9], "REST": value[9:]}, Limit: 100,
		Secrets: secret.NewSet(map[string]string{"PW": value}),
		Args:    []string{"-c", `printf "%s" "$START"; sleep 0.05; printf "%s\n" "$REST"; printf "%s" "$DB_PASSWORD" >&2; printf "%70s%s" "" "$DB_PASSWORD"`},
	}
	res, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "[REDACTED:secrets.PW]\n"+strings.Repeat(" ", 70), res.Stdout, "what the limit has cut in two is left out")
	assert.Equal(t, "[REDACTED:secrets.PW]", res.Stderr)
	assert.True(t, res.Truncated)

	c.Env = map[string]string{"DB_PASSWORD": "another"}
	_, err = r.Run(t.Context(), c)
	require.Error(t, err, "only a secret of the call may have such a name")
	c.Env = map[string]string{"ORCH_TOKEN": value}
	_, err = r.Run(t.Context(), c)
	require.Error(t, err)
}
