package fs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/fs"
)

// spec returns the contract of a tool.
func spec(t *testing.T, name string) tools.Spec {
	t.Helper()
	catalogue, err := tools.New(fs.Tools()...)
	require.NoError(t, err)
	tool, ok := catalogue.Get(name)
	require.True(t, ok)
	return tool.Spec()
}

// failed asserts that the text of an error begins with its name in the S4 rules and the field (S4-010).
func failed(t *testing.T, tool, text string, err error) {
	t.Helper()
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(tools.ErrorText(spec(t, tool), err), text), "%s: %q is not %q", tool, tools.ErrorText(spec(t, tool), err), text)
	if name, _, _ := strings.Cut(text, ":"); strings.ToUpper(name) != name {
		assert.Equal(t, name, fault.From(err).Reason)
	}
}

const hunk = "@@ -1 +1 @@\n-a\n+b\n"

// creation returns a patch that makes a file of one line.
func creation(name, line string) string {
	return "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+" + line + "\n"
}

// S4-022, S4-023, S4-025.
func TestPatchApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("src/f", "a\n")
	require.NoError(t, os.Chmod(path, 0o754))
	out := b.must("patch_apply", args{"path": path, "patch": "```diff\n--- a/src/f\n+++ b/src/f\n" + hunk + "```"})
	assert.Equal(t, map[string]any{"path": path, "created": false, "hunks": 1.0, "bytes_written": 2.0}, out)
	assert.Equal(t, "b\n", b.content(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o754), info.Mode().Perm())

	fresh := b.path("new/deep/g")
	out = b.must("patch_apply", args{"path": fresh, "patch": creation("new/deep/g", "x")})
	assert.Equal(t, map[string]any{"path": fresh, "created": true, "hunks": 1.0, "bytes_written": 2.0}, out)
	out = b.must("patch_apply", args{"path": fresh, "patch": creation("g", "y")})
	assert.Equal(t, false, out["created"])
	assert.Equal(t, "y\n", b.content(fresh))

	require.NoError(t, os.Symlink("src/f", b.path("link")))
	out = b.must("patch_apply", args{"path": b.path("link"), "patch": "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-b\n+c\n"})
	assert.Equal(t, path, out["path"])
	assert.Equal(t, "c\n", b.content(path))
}

// S4-024, S4-026, S4-027, S4-009: the file is unchanged, including its time, and no other file is created.
func TestPatchApplyRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path, then := b.file("dir/f", "a\n"), time.Unix(1_000_000, 0)
	require.NoError(t, os.Chtimes(path, then, then))
	names := "--- a/f\n+++ b/f\n"
	for _, tc := range []struct{ path, patch, text string }{
		{path, names + "@@ -1 +1 @@\n-x\n+b\n", "PatchFailed: patch: "},
		{path, names, "PatchFailed: patch: "},
		{path, "", "PatchFailed: patch: "},
		{path, names + hunk + "--- a/g\n+++ b/g\n" + hunk, "PatchFailed: patch: "},
		{path, "--- a/g\n+++ b/g\n" + hunk, "PatchFailed: patch: "},
		{path, creation("g", "x"), "PatchFailed: patch: "},
		{path, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "PatchFailed: patch: "},
		{b.path("absent"), "--- a/absent\n+++ b/absent\n" + hunk, "NotFound: path: "},
		{b.path("absent"), "garbage", "NotFound: path: "},
		{b.path("no/absent"), "--- a/absent\n+++ b/absent\n" + hunk, "NotFound: path: "},
		{b.path("absent"), "--- /dev/null\n+++ b/absent\n" + hunk, "PatchFailed: patch: "},
		{b.path("absent"), creation("other", "x"), "PatchFailed: patch: "},
		{b.path("../x"), creation("x", "x"), "OutsideRoot: path: "},
		{b.path("dir"), "--- a/dir\n+++ b/dir\n" + hunk, "INVALID_FORMAT: path: "},
		{b.path("dir"), creation("dir", "x"), "INVALID_FORMAT: path: "},
		{path + "/x", creation("x", "x"), "INVALID_FORMAT: path: "},
		{"f", names + hunk, "INVALID_FORMAT: path: "},
	} {
		_, err := b.call("patch_apply", args{"path": tc.path, "patch": tc.patch})
		failed(t, "patch_apply", tc.text, err)
	}
	assert.Equal(t, "a\n", b.content(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.True(t, info.ModTime().Equal(then))
	entries, err := os.ReadDir(b.path("dir"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	assert.NoDirExists(t, b.path("no"))
}

// a file that the task has read counts as read after a patch; another file does not.
func TestPatchApplyRemembers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "a\n")
	text := args{"path": path, "patch": "--- f\n+++ f\n" + hunk}
	b.must("patch_apply", text)
	_, err := b.call("FILE_EDIT", args{"file_path": path, "old_string": "b", "new_string": "c"})
	refused(t, err, fault.StateNotAllowed, "NOT_READ")
	b.file("f", "a\n")
	b.must("FILE_READ", args{"file_path": path})
	b.must("patch_apply", text)
	b.must("FILE_EDIT", args{"file_path": path, "old_string": "b", "new_string": "c"})
	b.must("patch_apply", args{"path": b.path("g"), "patch": creation("g", "x")})
	b.must("FILE_EDIT", args{"file_path": b.path("g"), "old_string": "x", "new_string": "y"})
	b.must("write_file", args{"path": b.path("h"), "content": "x"})
	b.must("FILE_EDIT", args{"file_path": b.path("h"), "old_string": "x", "new_string": "y"})
}

// S4-025: a concurrent reader sees either the old or the new content.
func TestPatchApplyIsAtomic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const lines = 2000
	whole := func(c string) string { return strings.Repeat(c+"\n", lines) }
	swap := func(from, to string) string {
		return fmt.Sprintf("--- f\n+++ f\n@@ -1,%d +1,%d @@\n%s%s", lines, lines, strings.Repeat("-"+from+"\n", lines), strings.Repeat("+"+to+"\n", lines))
	}
	path := b.file("f", whole("a"))
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			data, err := os.ReadFile(path)
			if err != nil || (string(data) != whole("a") && string(data) != whole("b")) {
				t.Errorf("a mixture of contents, or %v", err)
				return
			}
		}
	})
	for range 20 {
		b.must("patch_apply", args{"path": path, "patch": swap("a", "b")})
		b.must("patch_apply", args{"path": path, "patch": swap("b", "a")})
	}
	cancel()
	reader.Wait()
}

// S4-030, S4-031.
func TestAppend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "a")
	assert.Equal(t, map[string]any{"path": path, "bytes_appended": 3.0, "size": 4.0}, b.must("append", args{"path": path, "content": "bä"}))
	b.must("append", args{"path": path, "content": ""})
	assert.Equal(t, "abä", b.content(path))
	for _, tc := range []struct{ path, text string }{
		{b.path("absent"), "NotFound: path: "},
		{b.path("no/absent"), "NotFound: path: "},
		{b.path("../f"), "OutsideRoot: path: "},
		{b.root, "INVALID_FORMAT: path: "},
		{"f", "INVALID_FORMAT: path: "},
	} {
		_, err := b.call("append", args{"path": tc.path, "content": "x"})
		failed(t, "append", tc.text, err)
	}
	assert.NoFileExists(t, b.path("absent"))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { b.must("append", args{"path": path, "content": "0123456789"}) })
	}
	all.Wait()
	assert.Equal(t, "abä"+strings.Repeat("0123456789", 20), b.content(path))
}

// S4-035, S4-036.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.path("new/deep/f")
	assert.Equal(t, map[string]any{"path": path, "bytes_written": 3.0, "created": true}, b.must("write_file", args{"path": path, "content": "old"}))
	assert.Equal(t, map[string]any{"path": path, "bytes_written": 0.0, "created": false}, b.must("write_file", args{"path": path, "content": ""}))
	assert.Empty(t, b.content(path))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/f", []byte("x"), 0o600))
	require.NoError(t, os.Symlink(outside+"/f", b.path("exit")))
	require.NoError(t, os.Symlink(outside+"/new", b.path("dangling")))
	for _, tc := range []struct{ path, text string }{
		{b.path("new"), "INVALID_FORMAT: path: "},
		{b.root, "INVALID_FORMAT: path: "},
		{path + "/below", "INVALID_FORMAT: path: "},
		{path + "/far/below", "INVALID_FORMAT: path: "},
		{b.path("exit"), "OutsideRoot: path: "},
		{b.path("dangling"), "OutsideRoot: path: "},
		{outside + "/new", "OutsideRoot: path: "},
	} {
		_, err := b.call("write_file", args{"path": tc.path, "content": "y"})
		failed(t, "write_file", tc.text, err)
	}
	assert.NoFileExists(t, outside+"/new")
	assert.Equal(t, "x", b.content(outside+"/f"))
	require.NoError(t, os.Symlink("later", b.path("soon")))
	b.must("write_file", args{"path": b.path("soon"), "content": "y"}) // S4-005
	assert.Equal(t, "y", b.content(b.path("later")))
}

// S4-040.
func TestCreateDirectory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.path("a/b/c")
	for _, created := range []bool{true, false} {
		assert.Equal(t, map[string]any{"path": path, "created": created}, b.must("create_directory", args{"path": path}))
	}
	file := b.file("f", "x")
	for _, tc := range []struct{ path, text string }{
		{file, "INVALID_FORMAT: path: "},
		{file + "/x", "INVALID_FORMAT: path: "},
		{b.path("../x"), "OutsideRoot: path: "},
		{"x", "INVALID_FORMAT: path: "},
	} {
		_, err := b.call("create_directory", args{"path": tc.path})
		failed(t, "create_directory", tc.text, err)
	}
	assert.Equal(t, "x", b.content(file))
}

// S4-045, S4-046.
func TestMoveFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from, to := b.file("a/f", "x"), b.path("b/g")
	require.NoError(t, os.Mkdir(b.path("b"), 0o755))
	require.NoError(t, os.Chmod(from, 0o640))
	assert.Equal(t, map[string]any{"source": from, "destination": to, "replaced": false}, b.must("move_file", args{"source": from, "destination": to}))
	assert.NoFileExists(t, from)
	assert.Equal(t, "x", b.content(to))
	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	b.file("a/f", "y")
	assert.Equal(t, true, b.must("move_file", args{"source": from, "destination": to})["replaced"])
	assert.Equal(t, "y", b.content(to))
	b.must("move_file", args{"source": b.path("b"), "destination": b.path("a/b")})
	assert.Equal(t, "y", b.content(b.path("a/b/g")))
}

func TestMoveFileRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/secret", nil, 0o600))
	require.NoError(t, os.Symlink(outside, b.path("exit")))
	f, full := b.file("f", "x"), filepath.Dir(b.file("full/g", "y"))
	require.NoError(t, os.Mkdir(b.path("dir"), 0o755))
	before := tree(t, b.root)
	for _, tc := range []struct{ source, destination, text string }{
		{f, outside + "/f", "OutsideRoot: destination: "},
		{f, b.path("exit/f"), "OutsideRoot: destination: "},
		{f, b.path("exit"), "OutsideRoot: destination: "},
		{outside + "/secret", b.path("s"), "OutsideRoot: source: "},
		{b.path("exit/secret"), b.path("s"), "OutsideRoot: source: "},
		{b.path("exit"), b.path("s"), "OutsideRoot: source: "},
		{b.path("absent"), outside + "/f", "OutsideRoot: destination: "},
		{b.path("absent"), b.path("x"), "NotFound: source: "},
		{b.path("absent"), b.path("no/x"), "NotFound: source: "},
		{f, b.path("no/x"), "INVALID_FORMAT: destination: "},
		{f, f, "VALIDATION_ERROR: destination: "},
		{f, b.path("full/../f"), "VALIDATION_ERROR: destination: "},
		{f, full, "CONFLICT: destination: "},
		{f, b.path("dir"), "CONFLICT: destination: "},
		{b.path("dir"), full, "CONFLICT: destination: "},
		{b.path("dir"), f, "CONFLICT: destination: "},
		{full, full + "/g/x", "INVALID_FORMAT: destination: "},
		{full, full + "/x", "INVALID_FORMAT: destination: "},
		{b.root, b.path("x"), "INVALID_FORMAT: destination: "},
		{"f", b.path("x"), "INVALID_FORMAT: source: "},
		{f, "x", "INVALID_FORMAT: destination: "},
	} {
		_, err := b.call("move_file", args{"source": tc.source, "destination": tc.destination})
		failed(t, "move_file", tc.text, err)
	}
	assert.Equal(t, before, tree(t, b.root))
	assert.FileExists(t, outside+"/secret")
}

// S4-037, A-03: the contracts contain what the policy needs to treat the tools like FILE_WRITE.
func TestSeed004ObeysFileWrite(t *testing.T) {
	t.Parallel()
	like := spec(t, "FILE_WRITE")
	for name, content := range map[string][]string{
		"patch_apply": {"patch"}, "append": {"content"}, "write_file": {"content"}, "create_directory": nil, "move_file": nil,
	} {
		s := spec(t, name)
		assert.Equal(t, like.Gate, s.Gate, name)
		assert.Equal(t, like.Approval, s.Approval, name)
		assert.Equal(t, content, s.Content, name)
		assert.NotEmpty(t, s.Paths, name)
		for _, p := range s.Paths {
			assert.Equal(t, tools.WritePath, p.Access, name)
		}
	}
}

// S4-011: of two errors, the first in the order of checks is returned.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := b.file("f", "a\n")
	bad := "--- f\n+++ f\n@@ -1 +1 @@\n-x\n+y\n"
	for _, tc := range []struct {
		tool string
		in   args
		text string
	}{
		{"patch_apply", args{"path": "/etc/passwd", "patch": 1}, "VALIDATION_ERROR: patch: "},
		{"patch_apply", args{"path": "/etc/passwd"}, "REQUIRED_FIELD: patch: "},
		{"patch_apply", args{"path": "/etc/absent", "patch": bad}, "OutsideRoot: path: "},
		{"patch_apply", args{"path": b.path("absent"), "patch": bad}, "NotFound: path: "},
		{"patch_apply", args{"path": f, "patch": bad}, "PatchFailed: patch: "},
		{"append", args{"path": "/etc/absent", "content": 1}, "VALIDATION_ERROR: content: "},
		{"append", args{"path": "/etc/absent", "content": "x"}, "OutsideRoot: path: "},
		{"write_file", args{"path": "/etc/absent"}, "REQUIRED_FIELD: content: "},
		{"write_file", args{"path": "/etc/absent/x", "content": ""}, "OutsideRoot: path: "},
		{"create_directory", args{"path": "/etc", "more": 1}, "VALIDATION_ERROR: more: "},
		{"create_directory", args{"path": "/etc"}, "OutsideRoot: path: "},
		{"move_file", args{"source": "/etc/passwd"}, "REQUIRED_FIELD: destination: "},
		{"move_file", args{"source": b.path("absent"), "destination": "/etc/x"}, "OutsideRoot: destination: "},
		{"move_file", args{"source": b.path("absent"), "destination": b.path("no/x")}, "NotFound: source: "},
		{"FILE_DELETE", args{"file_path": "/etc/absent"}, "OUTSIDE_ROOT: file_path: "},
		{"DIRECTORY_DELETE", args{"directory_path": "/etc/absent"}, "REQUIRED_FIELD: recursive: "},
		{"DIRECTORY_DELETE", args{"directory_path": "/etc/absent", "recursive": true}, "OUTSIDE_ROOT: directory_path: "},
	} {
		_, err := b.call(tc.tool, tc.in)
		require.Error(t, err)
		assert.True(t, strings.HasPrefix(tools.ErrorText(spec(t, tc.tool), err), tc.text), "%s %v: %v", tc.tool, tc.in, err)
	}
}
