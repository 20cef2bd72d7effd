package workspace_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/workspace"
)

func badPaths() []string {
	return []string{
		"/", "/etc/passwd", ".", "..", "../x", "a/..", "a/../b", "a//b", "a/", "./a", "a/./b", "a\x00b", "a\xff", "//", strings.Repeat("a/", 2048) + "b",
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "a", "a/b", "...", "..a", "a..", ".env", "a b/ü\u202e\n", "-", "~", `..\..`} {
		got, err := workspace.ParsePath(good)
		require.NoError(t, err, "%q", good)
		assert.Equal(t, good, got)
	}
	for _, bad := range badPaths() {
		_, err := workspace.ParsePath(bad)
		e := fault.From(err)
		assert.Equal(t, []any{fault.InvalidFormat, "INVALID_PATH", "path"}, []any{e.Code, e.Reason, e.Field}, "%q", bad)
	}
}

// FuzzParsePath: a path that is accepted is local, clean and names no parent.
func FuzzParsePath(f *testing.F) {
	for _, seed := range append(badPaths(), "", "a/b", "..a/.../b..") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := workspace.ParsePath(text)
		if err != nil {
			assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
			assert.NotEmpty(t, text)
			return
		}
		assert.Equal(t, text, got)
		assert.True(t, utf8.ValidString(got))
		if got == "" {
			return
		}
		assert.True(t, filepath.IsLocal(got), got)
		assert.Equal(t, path.Clean(got), got)
		for name := range strings.SplitSeq(got, "/") {
			assert.NotContains(t, []string{"", ".", ".."}, name)
		}
	})
}

// The folder of a task is found wherever it has moved, and a link in its place is refused.
func TestOpen(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	_, err := tree.Open(task)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = tree.Ensure(task, "x")
	require.NoError(t, err)
	opens := func(at string) {
		t.Helper()
		f, err := tree.Open(task)
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(tree.Name(), at, string(task)), f.Abs(""))
		require.NoError(t, f.Close())
	}
	opens("")
	require.NoError(t, tree.Archive(task, false))
	opens(workspace.FailedShelf)
	require.NoError(t, tree.Retire(workspace.FailedShelf, task))
	_, err = tree.Open(task)
	assert.Equal(t, fault.Gone, fault.CodeOf(err))
	require.NoError(t, tree.Discard(task))
	_, err = tree.Open(task)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	require.NoError(t, os.Symlink("/etc", tree.Path(task)))
	_, err = tree.Open(task)
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err))
	_, err = tree.Open(events.TaskID("../../etc"))
	require.Error(t, err)
}
