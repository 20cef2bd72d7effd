package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// S0-072, A-27: a directory that contains something protected is protected too, also with an approval.
func TestDirectoriesWithProtectedPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	plain := func(parts ...string) string { return filepath.Join(append([]string{b.root.Name()}, parts...)...) }
	made := func(path string) string {
		text := "x"
		if filepath.Base(path) == "ID_ED25519" {
			text = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + strings.Repeat("b3BlbnNzaC1rZXktdjEAAAAA", 4) + "\n"
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, tc := range []struct {
		from, file, to string
		deleted, moved fault.Code
	}{
		{plain("repo"), "a/.git/config", plain("moved1"), fault.ProtectedPath, fault.ProtectedPath},
		{plain("submodule"), "lib/.git", plain("moved2"), fault.ProtectedPath, fault.ProtectedPath},
		{plain("node"), ".ORCH/state", plain("moved3"), fault.ProtectedPath, fault.ProtectedPath},
		{plain("keys"), "deep/er/ID_ED25519", plain("moved4"), fault.ProtectedPath, fault.ProtectedPath},
		{plain("module"), "cmd/go.mod", plain("moved5"), fault.ProtectedPath, fault.ProtectedPath},
		{b.working("workspace", "app"), "go.mod", plain("app"), "", fault.ProtectedPath},
		{b.working("workspace", "lib"), "go.mod", b.working("workspace", "moved"), "", ""},
		{b.working("workspace", "clone"), ".git/HEAD", b.working("workspace", "clone2"), fault.ProtectedPath, fault.ProtectedPath},
		{plain("plain"), "a/b/c.txt", plain("moved6"), "", ""},
	} {
		file := made(filepath.Join(tc.from, tc.file))
		assert.Equal(t, tc.moved, granted(t, b, call("move_file", `{"source":"`+tc.from+`","destination":"`+tc.to+`"}`)), "move %s", tc.from)
		if tc.moved == "" {
			assert.NoFileExists(t, file)
		}
		file = made(filepath.Join(tc.from, tc.file))
		c := call("DIRECTORY_DELETE", `{"directory_path":"`+tc.from+`","recursive":true}`)
		c.State = "AWAITING_APPROVAL"
		assert.Equal(t, tc.deleted, granted(t, b, c), "delete %s", tc.from)
		assert.Equal(t, tc.deleted == "", !exists(file), file)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// granted makes a call, with a grant if it needs one, and returns the code of its error.
func granted(t *testing.T, b *bench, c work.Call) fault.Code {
	t.Helper()
	out := b.Execute(t.Context(), c)
	if out.ApprovalRequest != nil {
		c.Grant = &work.Grant{ID: "APR", ArgsSHA256: out.ApprovalRequest.ArgsSHA256}
		out = b.Execute(t.Context(), c)
	}
	require.Nil(t, out.ApprovalRequest)
	return codeOf(out)
}
