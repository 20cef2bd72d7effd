package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// MCP clients read outputs without secrets, and no files with keys.
func TestOutputsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	id := submit(t, n.API(), writes("echo begun > ../outputs/a"))
	require.Equal(t, "DONE", string(result(t, n.API(), id).State))
	reply, err := n.API().Files(t.Context(), api.FilesRequest{ID: id})
	require.NoError(t, err)
	sub := filepath.Join(reply.Dir, "outputs", "sub")
	require.NoError(t, os.Mkdir(sub, 0o700))
	long := strings.Repeat("a line of the report\n", 20_000)
	require.NoError(t, os.WriteFile(filepath.Join(sub, "report.txt"), []byte(long+token+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(reply.Dir, "outputs", ".env"), []byte("KEY=1"), 0o600))
	text, err := n.ReadOutput(t.Context(), id, "sub/report.txt")
	require.NoError(t, err)
	assert.Equal(t, long+"[REDACTED:github_token]\n", string(text))
	for name, code := range map[string]fault.Code{".env": fault.ProtectedPath, "none": fault.NotFound, "../CHECKPOINTS.md": fault.OutsideRoot} {
		_, err = n.ReadOutput(t.Context(), id, name)
		assert.Equal(t, code, fault.CodeOf(err), "%s: %v", name, err)
	}
}
