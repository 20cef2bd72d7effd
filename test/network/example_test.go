package network_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// The example shows what TestNetwork checks, with the commands of a user.
func TestExample(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl")
	orch, err := need.Orch(t.TempDir())
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "../../examples/network/run.sh")
	cmd.Env = append(os.Environ(), "ORCH="+orch, "TASKS=80", "WORK=0.2", "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, line := range []string{"80 tasks\n", "\n40 looked, 40 made\n", ", 0 of them changed something\n", "task.assigned"} {
		assert.Contains(t, string(out), line)
	}
}
