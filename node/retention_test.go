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
	"github.com/orch-dev/orch/fault"
	nodeconfig "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/retention"
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

// Rules decide about workspaces by the labels of their tasks, and a hold keeps them, also after a restart.
func TestWorkspacesByRulesAndHolds(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	folders := map[string]string{}
	ids := map[string]events.TaskID{}
	for name, env := range map[string]string{"kept": "prod", "removed": "test", "held": "test", "other": ""} {
		reply, err := n.API().Submit(t.Context(), api.SubmitRequest{
			Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"a","set":{"n":1}}]}`), Labels: map[string]string{"env": env}, Actor: "user:ada",
		})
		require.NoError(t, err)
		require.Equal(t, statemachine.Done, result(t, n.API(), reply.ID).State)
		ids[name] = reply.ID
		folders[name] = filepath.Join(cfg.Root, "Working", "Archive", "Completed", string(reply.ID))
		require.NoError(t, os.MkdirAll(folders[name], 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folders[name], "a.txt"), []byte("four"), 0o600))
	}
	_, err := n.API().PlaceHold(t.Context(), api.HoldRequest{IDs: []events.TaskID{ids["held"]}, Reason: "case 4711", Actor: "user:ada"})
	require.NoError(t, err)
	require.NoError(t, n.Stop(t.Context()))

	cfg.Limits.Retention = node.Retention{Completed: 30 * day, Failed: 30 * day, Tasks: orchestrator.Retention{Rules: []retention.Rule{
		{Labels: map[string]string{"env": "prod"}, Workspaces: new(time.Duration(0))},
		{Labels: map[string]string{"env": "test"}, Workspaces: new(time.Nanosecond)},
	}}}
	guest := cfg
	guest.Guest = "orch retain"
	n = start(t, guest)
	report, err := n.API().Retention(t.Context(), api.RetentionRequest{})
	require.NoError(t, err)
	require.Len(t, report.Rules, 3)
	assert.Equal(t, []int{0, 1, 0}, []int{report.Rules[0].DueWorkspaces, report.Rules[1].DueWorkspaces, report.Rules[2].DueWorkspaces})
	assert.EqualValues(t, 4, report.Rules[1].DueWorkspaceBytes)
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	waitRemoved(t, folders["removed"])
	for _, name := range []string{"kept", "held", "other"} {
		assert.DirExists(t, folders[name], name)
	}
	holds, err := n.API().Holds(t.Context(), api.HoldsRequest{Task: ids["held"]})
	require.NoError(t, err)
	require.Len(t, holds.Holds, 1)
	assert.Equal(t, "case 4711", holds.Holds[0].Reason)
}

// A place that cannot be right is an error at the start, without the credentials. A directory that is missing is not created.
func TestOpenOutside(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	aws := func(name string) string {
		return map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2-hunter2", "AWS_REGION": "eu-central-1"}[name]
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		place    string
		settings nodeconfig.S3
		getenv   func(string) string
		code     fault.Code
		field    string
	}{
		"a missing directory":    {missing, nodeconfig.S3{}, none, fault.NotFound, ""},
		"no credentials":         {"s3://records", nodeconfig.S3{}, none, fault.RequiredField, "s3_secret"},
		"half of them":           {"s3://records", nodeconfig.S3{KeyID: "env:AWS_ACCESS_KEY_ID"}, aws, fault.RequiredField, "s3_secret"},
		"a variable without one": {"s3://records", nodeconfig.S3{KeyID: "env:AWS_ACCESS_KEY_ID", Secret: "env:NONE"}, aws, fault.ValidationError, "s3_secret"},
		"a file URL":             {"file://" + missing, nodeconfig.S3{}, none, fault.InvalidFormat, ""},
		"a server":               {"https://example.com/records", nodeconfig.S3{}, none, fault.InvalidFormat, ""},
		"no bucket":              {"s3://X", nodeconfig.S3{}, aws, fault.InvalidFormat, ""},
		"good":                   {"s3://records/orch", nodeconfig.S3{}, aws, "", ""},
	} {
		store, err := node.OpenOutside(c.place, c.settings, c.getenv, false)
		assert.Equal(t, c.code, fault.CodeOf(err), name)
		if err != nil {
			assert.Equal(t, c.field, fault.From(err).Field, name)
			assert.NotContains(t, err.Error(), "hunter2", name)
			assert.Nil(t, store, name)
			continue
		}
		assert.Equal(t, c.place, store.String())
		require.NoError(t, store.Close())
	}
	require.NoDirExists(t, missing)
	cfg := config(t)
	cfg.Limits.Retention = node.Retention{Tasks: orchestrator.Retention{Done: day}, ArchiveTo: "s3://X"}
	_, err := node.Start(t.Context(), cfg)
	require.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	assert.Equal(t, "retain_archive_to", fault.From(err).Field)
}
