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
	"github.com/orch-dev/orch/tools"
)

// unprivileged runs do so that the kernel checks file permissions: root gives the thread the file system identity of
// nobody. The thread is never unlocked, so it ends with its goroutine.
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
	require.NoError(t, os.Chmod(filepath.Dir(b.root), 0o755)) // the test directory is not accessible to others
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
	// A search skips files that it may not read.
	var out map[string]any
	unprivileged(func() {
		out, _ = b.call("GREP_SEARCH", args{"pattern": "x", "path": b.root, "output_mode": "files_with_matches"})
	})
	assert.Equal(t, []string{"fixed/file"}, b.names(out["files"], ""))
	assert.Equal(t, "x", b.content(fixed))
}

// S0-051, S0-072, S4-035: the same for deletions and for the tools of the S4 rules, with the names in those rules.
// Nothing changes.
func TestPermissionDeniedToWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Chmod(filepath.Dir(b.root), 0o755))
	fixed, open := b.file("fixed/file", "a\n"), b.file("open/file", "a\n")
	full, secret := b.file("fixed/full/x", "x"), b.file("open/tree/secret", "x")
	require.NoError(t, os.Mkdir(b.path("fixed/empty"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(b.env.Workspace, "temp", "backups"), 0o755))
	for path, mode := range map[string]os.FileMode{
		fixed: 0o444, b.path("fixed"): 0o555, open: 0o666, b.path("open"): 0o777, b.path("open/tree"): 0o777, secret: 0,
		filepath.Join(b.env.Workspace, "temp", "backups"): 0o777,
	} {
		require.NoError(t, os.Chmod(path, mode))
	}
	t.Cleanup(func() { _ = os.Chmod(b.path("fixed"), 0o755) })
	before := tree(t, b.root)
	for _, c := range []struct {
		tool string
		in   args
		text string
	}{
		{"FILE_DELETE", args{"file_path": fixed}, "FORBIDDEN: file_path: "},
		{"DIRECTORY_DELETE", args{"directory_path": b.path("fixed/empty"), "recursive": false}, "FORBIDDEN: directory_path: "},
		{"DIRECTORY_DELETE", args{"directory_path": b.path("open/tree"), "recursive": true}, "FORBIDDEN: directory_path: "}, // no backup
		{"patch_apply", args{"path": fixed, "patch": "--- file\n+++ file\n@@ -1 +1 @@\n-a\n+b\n"}, "PermissionDenied: path: "},
		{"patch_apply", args{"path": fixed, "patch": "no patch"}, "PermissionDenied: path: "},
		{"patch_apply", args{"path": fixed, "patch": creation("file", "x")}, "PermissionDenied: path: "},
		{"patch_apply", args{"path": b.path("fixed/new"), "patch": creation("new", "x")}, "PermissionDenied: path: "},
		{"append", args{"path": fixed, "content": "x"}, "PermissionDenied: path: "},
		{"write_file", args{"path": fixed, "content": "x"}, "PermissionDenied: path: "},
		{"write_file", args{"path": b.path("fixed/new/x"), "content": "x"}, "PermissionDenied: path: "},
		{"create_directory", args{"path": b.path("fixed/new/er")}, "PermissionDenied: path: "},
		{"move_file", args{"source": fixed, "destination": b.path("open/moved")}, "PermissionDenied: destination: "},
		{"move_file", args{"source": open, "destination": b.path("fixed/moved")}, "PermissionDenied: destination: "},
		{"move_file", args{"source": open, "destination": fixed}, "PermissionDenied: destination: "},
	} {
		var err error
		unprivileged(func() { _, err = b.call(c.tool, c.in) })
		failed(t, c.tool, c.text, err)
		if spec(t, c.tool).Effect == tools.Destructive {
			assert.Equal(t, "PERMISSION_DENIED", fault.From(err).Reason)
		}
	}
	assert.Equal(t, "x", b.content(full))
	assert.Equal(t, before, tree(t, b.root))
	// When the deletion of a directory fails halfway, the error contains the path of its backup.
	b.file("open/part/fixed/x", "x")
	require.NoError(t, os.Chmod(b.path("open/part"), 0o777))
	require.NoError(t, os.Chmod(b.path("open/part/fixed"), 0o555))
	var err error
	unprivileged(func() {
		_, err = b.call("DIRECTORY_DELETE", args{"directory_path": b.path("open/part"), "recursive": true})
	})
	failed(t, "DIRECTORY_DELETE", "FORBIDDEN: directory_path: ", err)
	assert.FileExists(t, fault.From(err).Hint[len("a part may be deleted; all of it is in "):])
	assert.FileExists(t, b.path("open/part/fixed/x"))
}
