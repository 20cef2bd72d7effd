package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// refused asserts that an error has the code, and the reason unless it is "".
func refused(t *testing.T, err error, code fault.Code, reason string) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, code, e.Code, e.Message)
	if reason != "" {
		assert.Equal(t, reason, e.Reason)
	}
}

// S0-031, S0-037: creates and overwrites, confirms the path, empty content is valid.
func TestFileWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.path("f.txt")
	out := b.must("FILE_WRITE", args{"file_path": path, "content": "häl\n"})
	assert.Equal(t, map[string]any{"file_path": path, "bytes_written": 5.0, "created": true}, out)
	assert.Equal(t, "häl\n", b.content(path))
	require.NoError(t, os.Chmod(path, 0o640))
	out = b.must("FILE_WRITE", args{"file_path": path, "content": ""})
	assert.Equal(t, map[string]any{"file_path": path, "bytes_written": 0.0, "created": false}, out)
	assert.Empty(t, b.content(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	left, err := filepath.Glob(b.path(".orch-*"))
	require.NoError(t, err)
	assert.Empty(t, left, "a temporary file is left")
}

// S0-038 and S0-007.
func TestFileWriteRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, b.path("exit")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "new"), b.path("dangling")))
	for path, want := range map[string]struct {
		code   fault.Code
		reason string
	}{
		b.path("no/such/dir/f"): {fault.InvalidFormat, "INVALID_PATH"},
		b.path("Working"):       {fault.InvalidFormat, "INVALID_PATH"},
		b.root:                  {fault.InvalidFormat, "INVALID_PATH"},
		"relative":              {fault.InvalidFormat, "INVALID_PATH"},
		b.path("a\x00b"):        {fault.InvalidFormat, "INVALID_PATH"},
		b.path("../x"):          {fault.OutsideRoot, "OutsideRoot"},
		b.path("exit/x"):        {fault.OutsideRoot, "OutsideRoot"},
		b.path("dangling"):      {fault.OutsideRoot, "OutsideRoot"},
	} {
		_, err := b.call("FILE_WRITE", args{"file_path": path, "content": "x"})
		refused(t, err, want.code, want.reason)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// A link inside the root is followed: its target changes, the link remains.
func TestFileWriteThroughLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("real", "old")
	require.NoError(t, os.Symlink("real", b.path("link")))
	out := b.must("FILE_WRITE", args{"file_path": b.path("link"), "content": "new"})
	assert.Equal(t, path, out["file_path"])
	assert.Equal(t, "new", b.content(path))
	target, err := os.Readlink(b.path("link"))
	require.NoError(t, err)
	assert.Equal(t, "real", target)
}

// S0-042 to S0-044: a file must be read first; further edits need no new read.
func TestFileEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "cost: $1 (.*)\r\ntwo two\n")
	edit := args{"file_path": path, "old_string": "$1 (.*)\r\n", "new_string": "$2\n"}
	_, err := b.call("FILE_EDIT", edit)
	refused(t, err, fault.StateNotAllowed, "NOT_READ")
	assert.Equal(t, "cost: $1 (.*)\r\ntwo two\n", b.content(path))

	b.must("FILE_READ", args{"file_path": path})
	assert.Equal(t, map[string]any{"file_path": path, "replacements": 1.0}, b.must("FILE_EDIT", edit))
	out := b.must("FILE_EDIT", args{"file_path": path, "old_string": "two", "new_string": "", "replace_all": true})
	assert.InDelta(t, 2, out["replacements"], 0)
	assert.Equal(t, "cost: $2\n \n", b.content(path))
}

// A file that the task wrote itself counts as read.
func TestFileEditAfterWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.path("f")
	b.must("FILE_WRITE", args{"file_path": path, "content": "a"})
	b.must("FILE_EDIT", args{"file_path": path, "old_string": "a", "new_string": "b"})
	assert.Equal(t, "b", b.content(path))
}

// S0-043, S0-045, S0-046: the file is not changed.
func TestFileEditRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "one two two")
	b.must("FILE_READ", args{"file_path": path})
	for name, tc := range map[string]struct {
		in     args
		code   fault.Code
		reason string
	}{
		"absent text": {args{"file_path": path, "old_string": "three", "new_string": ""}, fault.NotFound, "TEXT_NOT_FOUND"},
		"not unique":  {args{"file_path": path, "old_string": "two", "new_string": ""}, fault.NotUnique, ""},
		"empty":       {args{"file_path": path, "old_string": "", "new_string": "x"}, fault.ValidationError, ""},
		"same":        {args{"file_path": path, "old_string": "one", "new_string": "one"}, fault.ValidationError, ""},
		"absent file": {args{"file_path": b.path("g"), "old_string": "one", "new_string": ""}, fault.NotFound, ""},
		"directory":   {args{"file_path": b.root, "old_string": "one", "new_string": ""}, fault.InvalidFormat, "INVALID_PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.call("FILE_EDIT", tc.in)
			refused(t, err, tc.code, tc.reason)
			assert.Equal(t, "one two two", b.content(path))
		})
	}
}

func TestFileEditCountsOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "aXaXa")
	b.must("FILE_READ", args{"file_path": path})
	_, err := b.call("FILE_EDIT", args{"file_path": path, "old_string": "a", "new_string": ""})
	require.ErrorContains(t, err, "3 times")
}

func TestFileEditRefusesStaleRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "old")
	b.must("FILE_READ", args{"file_path": path})
	b.file("f", "old, changed elsewhere")
	_, err := b.call("FILE_EDIT", args{"file_path": path, "old_string": "old", "new_string": "new"})
	refused(t, err, fault.Conflict, "")
	assert.Equal(t, "old, changed elsewhere", b.content(path))
}

// S0-060, S0-061.
func TestDirectoryCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.path("dir")
	assert.Equal(t, map[string]any{"directory_path": path, "created": true}, b.must("DIRECTORY_CREATE", args{"directory_path": path}))
	assert.DirExists(t, path)
	kept := b.file("dir/kept", "x")
	for path, code := range map[string]fault.Code{
		path:                  fault.Conflict,
		kept:                  fault.Conflict,
		b.path("no/parent"):   fault.NotFound,
		b.path("dir/kept/x"):  fault.InvalidFormat,
		b.path("dir/../../x"): fault.OutsideRoot,
		b.root:                fault.Conflict,
	} {
		_, err := b.call("DIRECTORY_CREATE", args{"directory_path": path})
		refused(t, err, code, "")
	}
	assert.Equal(t, "x", b.content(kept))
	assert.NoDirExists(t, b.path("no"))
}
