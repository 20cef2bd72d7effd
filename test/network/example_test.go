package network_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example shows what TestNetwork holds, with the commands of a user.
func TestExample(t *testing.T) {
	t.Parallel()
	orch := filepath.Join(t.TempDir(), "orch")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", orch, "../../cmd/orch").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), "../../examples/network/run.sh")
	cmd.Env = append(os.Environ(), "ORCH="+orch, "TASKS=80", "WORK=0.2", "TMPDIR="+t.TempDir())
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, line := range []string{"80 tasks\n", "\n40 looked, 40 made\n", ", 0 of them changed something\n", "task.assigned"} {
		assert.Contains(t, string(out), line)
	}
}
