package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/workspace"
)

func TestOwners(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	other := events.NewTaskID(time.UnixMilli(5))
	for _, id := range []events.TaskID{task, other} {
		_, err := tree.Ensure(id, "")
		require.NoError(t, err)
	}
	for _, identity := range []string{"agent:../../ada", "agent:/", strings.Repeat("x", 5000), "agent:\x00"} {
		assert.False(t, tree.HasAccess(identity, task))
		assert.Empty(t, tree.Recent(identity))
		require.NoError(t, tree.RecordAccess(task, identity))
		require.NoError(t, tree.RecordAccess(task, identity), "again")
		assert.True(t, tree.HasAccess(identity, task))
		assert.False(t, tree.HasAccess(identity, other))
		assert.Equal(t, []events.TaskID{task}, tree.Recent(identity))
	}
	require.NoError(t, tree.RecordAccess(task, ""))
	assert.False(t, tree.HasAccess("", task), "nobody known owns nothing")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no name of an identity leads elsewhere")
}

func TestForeign(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	mine, others := string(events.NewTaskID(time.UnixMilli(7))), string(events.NewTaskID(time.UnixMilli(8)))
	require.NoError(t, tree.RecordAccess(events.TaskID(mine), "agent:a"))
	for rel, foreign := range map[string]bool{
		"src/a": false, "Working": false, "Workingx/" + others: false, "Working/" + string(task): false, "Working/" + string(task) + "/workspace/a": false,
		"Working/" + mine: false, "Working/" + mine + "/outputs/x": false, "Working/" + others: true, "Working/" + others + "/workspace/a": true,
		"Working/.cache": true, "Working/.owners": true, "Working/.owners/x": true, "Working/TASK_x": true, "Working/notes": true,
		"Working/Archive": false, "Working/Archive/Completed": false, "Working/Archive/Completed/" + mine + "/a": false,
		"Working/Archive/Failed/" + others: true, "Working/Archive/Failed/" + others + "/a/b/c": true,
	} {
		assert.Equal(t, foreign, tree.Foreign(filepath.FromSlash(rel), "agent:a", task), rel)
	}
	assert.True(t, tree.Foreign("Working/"+mine, "agent:b", task))
	assert.True(t, tree.Foreign("Working/"+mine, "", task))
}

func TestRecentIsTheNewest(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	var newest events.TaskID
	for i := range workspace.MaxRecent + 10 {
		newest = events.NewTaskID(time.UnixMilli(int64(1000 + i)))
		_, err := tree.Ensure(newest, "")
		require.NoError(t, err)
		require.NoError(t, tree.RecordAccess(newest, "agent:a"))
		if i == 5 {
			assert.Len(t, tree.Recent("agent:a"), 6, "loaded here, and kept up to date from now on")
		}
	}
	recent := tree.Recent("agent:a")
	assert.Len(t, recent, workspace.MaxRecent)
	assert.Equal(t, newest, recent[0])
	require.NoError(t, os.RemoveAll(tree.Path(newest)))
	assert.NotContains(t, tree.Recent("agent:a"), newest, "what is gone is not shown")
}

func TestCachesAreApartAndSwept(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	require.NoError(t, tree.Sweep(time.Now()), "nothing is there yet")
	now := time.Now()
	a, err := tree.Cache("agent:../a", now)
	require.NoError(t, err)
	b, err := tree.Cache("agent:b", now)
	require.NoError(t, err)
	assert.NotEqual(t, a, b)
	assert.Equal(t, filepath.Join(tree.Name(), ".cache"), filepath.Dir(a))
	assert.Equal(t, "\"agent:../a\"\n", read(t, a+".identity"), "an operator reads whose it is")
	stale := filepath.Join(tree.Name(), ".cache", "go-build")
	require.NoError(t, os.MkdirAll(filepath.Join(stale, "00"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(a, "go-mod", "ro"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(a, "go-mod", "ro", "file"), nil, 0o444))
	require.NoError(t, os.Chmod(filepath.Join(a, "go-mod", "ro"), 0o555))

	unfinished := filepath.Join(tree.Name(), ".cache", ".orch-x.tmp")
	require.NoError(t, os.WriteFile(unfinished, nil, 0o600))
	require.NoError(t, tree.Sweep(now))
	assert.FileExists(t, unfinished, "a call is creating a cache")

	later := now.Add(workspace.CacheAge / 2)
	_, err = tree.Cache("agent:b", later)
	require.NoError(t, err)
	require.NoError(t, tree.Sweep(now.Add(workspace.CacheAge+time.Hour)))
	assert.NoDirExists(t, a)
	assert.NoFileExists(t, a+".identity")
	assert.NoDirExists(t, stale, "what belongs to nobody")
	assert.NoFileExists(t, unfinished)
	assert.DirExists(t, b, "it was used meanwhile")

	_, err = tree.Ensure(task, "")
	require.NoError(t, err)
	gone := events.NewTaskID(time.UnixMilli(9))
	for _, id := range []events.TaskID{task, gone} {
		require.NoError(t, tree.RecordAccess(id, "agent:b"))
	}
	require.NoError(t, tree.Sweep(later))
	assert.True(t, tree.HasAccess("agent:b", task))
	assert.False(t, tree.HasAccess("agent:b", gone))
	require.NoError(t, tree.Archive(task, true))
	require.NoError(t, tree.Sweep(later))
	assert.True(t, tree.HasAccess("agent:b", task), "the archive is still there")
}
