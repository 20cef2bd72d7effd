package pathindex_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pathindex"
)

func write(tb testing.TB, path ...string) {
	tb.Helper()
	at := filepath.Join(path...)
	require.NoError(tb, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(tb, os.WriteFile(at, nil, 0o600))
}

func isKey(path string) bool { return strings.HasSuffix(path, ".key") }

func find(tb testing.TB, x *pathindex.Index) (names, stores []string) {
	tb.Helper()
	r, err := x.Find("keys", isKey)
	require.NoError(tb, err)
	slices.Sort(r.Names)
	return r.Names, r.Stores
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a.key", "b/c.key", "b/d.txt", "d.key/e.key", "skip/f.key", "r/.git/HEAD", "r/.git/objects/x.key", "r/.git/lfs/y.key"} {
		write(t, dir, name)
	}
	require.NoError(t, os.Symlink("b", at("link")))
	x := pathindex.New(dir, at("skip"))
	names, stores := find(t, x)
	assert.Equal(t, []string{at("a.key"), at("b/c.key"), at("d.key")}, names)
	assert.Equal(t, []string{at("r/.git/lfs"), at("r/.git/objects")}, stores)

	// Each change is seen, also one that follows another in the same moment.
	for i := range 20 {
		write(t, dir, "b", fmt.Sprintf("n%d.key", i))
		names, _ = find(t, x)
		assert.Len(t, names, 4+i)
	}
	require.NoError(t, os.Rename(at("b"), at("moved")))
	names, _ = find(t, x)
	assert.Contains(t, names, at("moved/c.key"))
	assert.NotContains(t, names, at("b/c.key"))
	require.NoError(t, os.Rename(at("d.key"), at("b")))
	names, _ = find(t, x)
	assert.Contains(t, names, at("b/e.key"), "another folder under an old name")
	require.NoError(t, os.RemoveAll(at("moved")))
	names, _ = find(t, x)
	assert.Equal(t, []string{at("a.key"), at("b/e.key")}, names)

	r, err := x.Find("all", func(string) bool { return true })
	require.NoError(t, err)
	assert.Contains(t, r.Names, at("skip"), "the folder itself, not what is in it")
}

func TestFindWithoutADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	x := pathindex.New(dir)
	names, _ := find(t, x)
	assert.Empty(t, names)
	write(t, dir, "a.key")
	names, _ = find(t, x)
	assert.Len(t, names, 1)
}

// BenchmarkFind is a call of a program in a root of 100,000 files: the first one, and each one after that.
func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		folder := filepath.Join(dir, fmt.Sprintf("p%d", i/50), fmt.Sprintf("d%d", i))
		require.NoError(b, os.MkdirAll(folder, 0o755))
		for j := range 100 {
			name := fmt.Sprintf("f%d.go", j)
			if j == 0 && i%10 == 0 {
				name = "x.key"
			}
			require.NoError(b, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			names, _ := find(b, pathindex.New(dir))
			require.Len(b, names, 100)
		}
	})
	b.Run("again", func(b *testing.B) {
		x := pathindex.New(dir)
		find(b, x)
		for b.Loop() {
			names, _ := find(b, x)
			require.Len(b, names, 100)
		}
	})
	b.Run("after a change", func(b *testing.B) {
		x := pathindex.New(dir)
		for i := 0; b.Loop(); i++ {
			write(b, dir, "p0", "d0", fmt.Sprintf("new%d", i%100))
			find(b, x)
		}
	})
}

// Folders with repository contents are recognized by their path, whether or not the index has read them.
func TestStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{
		"r/.git/HEAD", "r/.git/objects/aa/x", "r/.git/lfs/objects/y", "r/.git/rr-cache/z/preimage", "bare/HEAD", "bare/objects/x", "bare/lfs/y",
		"r/.git/worktrees/w/HEAD", "r/.git/worktrees/w/commondir", "r/.git/worktrees/w/rebase-merge/patch", "half/.git/objects/x",
		"code/objects/x", "code/lfs/y", "skip/.git/objects/x", "bare/main/x", "bare/COMMIT_EDITMSG", "r/.git/index", "r/.git/index.lock",
		"r/.git/COMMIT_EDITMSG", "r/.git/.COMMIT_EDITMSG.swp", "r/.git/lost-found/other/x", "r/.git/modules/libs/m/HEAD", "r/.git/modules/libs/m/objects/x",
		"r/.git/modules/libs/m/lost-found/x", "r/.git/worktrees/w/COMMIT_EDITMSG", "h/.hg/store/data/x.i", "v/.svn/pristine/00/x", "v/src/x",
	} {
		write(t, dir, name)
	}
	x := pathindex.New(dir, at("skip"))
	for _, name := range []string{
		"r/.git/objects", "r/.git/objects/aa/x", "r/.git/objects/new", "r/.git/lfs/objects/y", "r/.git/rr-cache/z/preimage", "r/.git/rebase-apply/0001",
		"bare/objects/x", "bare/lfs", "r/.git/worktrees/w/rebase-merge/patch", "half/.git/objects/x", "bare/COMMIT_EDITMSG", "r/.git/COMMIT_EDITMSG",
		"r/.git/.COMMIT_EDITMSG.swp", "r/.git/lost-found/other/x", "r/.git/modules/libs/m/objects/x", "r/.git/modules/libs/m/lost-found",
		"r/.git/worktrees/w/COMMIT_EDITMSG", "r/.git/unknown", "h/.hg", "h/.hg/store/data/x.i", "v/.svn/pristine/00/x",
	} {
		assert.True(t, x.Stored(at(name)), name)
	}
	for _, name := range []string{".", "r", "r/.git", "r/.git/HEAD", "r/.git/config", "code/objects/x", "code/lfs/y", "bare/HEAD", "skip", "skip/.git/objects/x", "../r/.git/objects/x", "bare/main/x", "r/.git/index", "r/.git/index.lock", "r/.git/modules/libs/m/HEAD", "r/.git/worktrees/w/HEAD", "v/src/x"} {
		assert.False(t, x.Stored(at(name)), name)
	}
	_, stores := find(t, x)
	for _, place := range stores {
		assert.True(t, x.Stored(place), place)
	}
	assert.Len(t, stores, 16, "all of them are found, too")
}
