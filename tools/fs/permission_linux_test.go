package fs_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// unprivileged runs do so that the kernel checks file permissions: the superuser lends the thread the
// file system identity of nobody. The thread is never unlocked, so it ends with its goroutine.
func unprivileged(do func()) {
	if os.Geteuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		const nobody = 65534
		if syscall.Setfsuid(nobody) == nil {
			do()
		}
	}()
	<-done
}

// S0-024, S0-038, S0-060, S0-065: what the operating system denies is PERMISSION_DENIED.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Chmod(filepath.Dir(b.root), 0o755)) // the directory of the test is closed to others
	secret, shut := b.file("secret", "x"), b.path("shut")
	fixed := b.file("fixed/file", "x")
	b.file("shut/file", "x")
	require.NoError(t, os.Chmod(secret, 0))
	require.NoError(t, os.Chmod(shut, 0))
	require.NoError(t, os.Chmod(fixed, 0o444))
	require.NoError(t, os.Chmod(b.path("fixed"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(shut, 0o755); _ = os.Chmod(b.path("fixed"), 0o755) })
	b.must("FILE_READ", args{"file_path": fixed})
	calls := map[string]struct {
		tool string
		in   args
	}{
		"read":         {"FILE_READ", args{"file_path": secret}},
		"read below":   {"FILE_READ", args{"file_path": shut + "/file"}},
		"overwrite":    {"FILE_WRITE", args{"file_path": fixed, "content": "y"}},
		"write new":    {"FILE_WRITE", args{"file_path": b.path("fixed/new"), "content": "y"}},
		"edit":         {"FILE_EDIT", args{"file_path": fixed, "old_string": "x", "new_string": "y"}},
		"make":         {"DIRECTORY_CREATE", args{"directory_path": b.path("fixed/new")}},
		"list":         {"DIRECTORY_LIST", args{"directory_path": shut}},
		"glob":         {"GLOB_SEARCH", args{"pattern": "*", "path": shut}},
		"grep":         {"GREP_SEARCH", args{"pattern": "x", "path": secret}},
		"grep in shut": {"GREP_SEARCH", args{"pattern": "x", "path": shut}},
	}
	for name, c := range calls {
		var err error
		unprivileged(func() { _, err = b.call(c.tool, c.in) })
		var e *fault.Error
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, fault.Forbidden, e.Code, "%s: %v", name, e)
		assert.Equal(t, "PERMISSION_DENIED", e.Reason, name)
	}
	// A search passes over what it may not read.
	var out map[string]any
	unprivileged(func() {
		out, _ = b.call("GREP_SEARCH", args{"pattern": "x", "path": b.root, "output_mode": "files_with_matches"})
	})
	assert.Equal(t, []string{"fixed/file"}, b.names(out["files"], ""))
	assert.Equal(t, "x", b.content(fixed))
}
