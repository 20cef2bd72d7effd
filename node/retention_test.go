package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

const day = 24 * time.Hour

// shelve creates the workspace of a task on a shelf of the archive, as at the end of the task.
func shelve(t *testing.T, root, shelf string, submitted, ended time.Time) (task events.TaskID, folder string) {
	t.Helper()
	task = events.NewTaskID(submitted)
	folder = filepath.Join(root, "Working", "Archive", shelf, string(task))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "outputs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "outputs", "a.txt"), []byte("four"), 0o600))
	require.NoError(t, os.Chtimes(folder, ended, ended))
	return task, folder
}

// waitRemoved waits until a folder is removed, from its shelf and from the folder of removals in progress.
func waitRemoved(t *testing.T, folder string) {
	t.Helper()
	going := filepath.Join(filepath.Dir(filepath.Dir(folder)), "Going", filepath.Base(folder))
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		_, rest := os.Stat(going)
		return os.IsNotExist(err) && os.IsNotExist(rest)
	}, time.Minute, 10*time.Millisecond)
}

// A node removes the workspaces of archived tasks when their retention has expired, depending on the state of the task. The log
// records which.
func TestRetention(t *testing.T) {
	t.Parallel()
	cfg, now := config(t), time.Now()
	cfg.Limits.Retention = node.Retention{Completed: 30 * day, Failed: 90 * day}
	gone, old := shelve(t, cfg.Root, "Completed", now.Add(-40*day), now.Add(-31*day))
	var stay []string
	for shelf, ended := range map[string]time.Duration{"Completed": 29 * day, "Failed": 31 * day} {
		_, folder := shelve(t, cfg.Root, shelf, now.Add(-40*day), now.Add(-ended))
		stay = append(stay, folder)
	}
	_, backdated := shelve(t, cfg.Root, "Completed", now.Add(-day), now.Add(-31*day)) // a tool has set the modification time of its folder
	other := filepath.Join(cfg.Root, "Working", "Archive", "Completed", "mine")
	require.NoError(t, os.Mkdir(other, 0o700))
	rest := filepath.Join(cfg.Root, "Working", "Archive", "Going", "TASK_01KE0000000000000000000000") // of an interrupted removal
	require.NoError(t, os.MkdirAll(rest, 0o700))

	look, err := node.InspectRetention(t.Context(), cfg, now)
	require.NoError(t, err)
	require.Len(t, look, 2)
	assert.Equal(t, []events.TaskID{gone}, look[0].Due)
	assert.EqualValues(t, 4, look[0].DueBytes)
	assert.EqualValues(t, 12, look[0].Bytes)
	assert.Empty(t, look[1].Due)
	require.DirExists(t, old)

	n := start(t, cfg)
	waitRemoved(t, old)
	for _, folder := range append(stay, backdated, other) {
		assert.DirExists(t, folder)
	}
	assert.NoDirExists(t, rest)
	list, err := n.API().List(t.Context(), api.ListRequest{Name: api.OwnPrefix + "retention"})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 2, "what was left of an earlier removal, and what was due")
	history, err := n.API().History(t.Context(), api.HistoryRequest{ID: list.Tasks[0].ID, Limit: 10})
	require.NoError(t, err)
	require.NotEmpty(t, history.Commits)
	assert.Equal(t, "system:retention", history.Commits[0].Actor)
	assert.Equal(t, statemachine.Done, result(t, n.API(), list.Tasks[0].ID).State)
	text, err := json.Marshal(history)
	require.NoError(t, err)
	assert.Contains(t, string(text), gone)
}

// A folder that cannot be removed blocks no other one, and is not recorded as removed. Programs may have left folders that are
// not writable.
func TestRetentionPassesOverWhatStays(t *testing.T) {
	t.Parallel()
	cfg, now := config(t), time.Now()
	cfg.Limits.Retention = node.Retention{Completed: day, Failed: day}
	ended := now.Add(-2 * day)
	stays, stuck := shelve(t, cfg.Root, "Completed", ended, ended)
	_, sealed := shelve(t, cfg.Root, "Failed", ended, ended)
	_, rest := shelve(t, cfg.Root, "Going", ended, ended)
	_, last := shelve(t, cfg.Root, "Failed", ended.Add(time.Second), ended)
	for _, dir := range []string{filepath.Join(sealed, "outputs"), sealed, filepath.Join(rest, "outputs"), filepath.Dir(stuck)} {
		require.NoError(t, os.Chmod(dir, 0o555))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
	if os.Geteuid() == 0 { // whom no mode stops: a file in the place of the folder does
		require.NoError(t, os.RemoveAll(filepath.Join(cfg.Root, "Working", "Archive", "Completed")))
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "Working", "Archive", "Completed"), nil, 0o600))
	}
	n := start(t, cfg)
	waitRemoved(t, last)
	assert.NoDirExists(t, sealed)
	assert.NoDirExists(t, rest)
	if os.Geteuid() != 0 {
		assert.DirExists(t, stuck)
	}
	list, err := n.API().List(t.Context(), api.ListRequest{Name: api.OwnPrefix + "retention"})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 2, "what was left, and what was due")
	for _, one := range list.Tasks {
		history, err := n.API().History(t.Context(), api.HistoryRequest{ID: one.ID, Limit: 10})
		require.NoError(t, err)
		text, err := json.Marshal(history)
		require.NoError(t, err)
		assert.NotContains(t, string(text), stays)
	}
}
