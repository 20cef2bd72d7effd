package bus_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// archivedDay makes tasks of the day before, each with some commits, and archives them.
func archivedDay(t *testing.T, n *bustest.Node, count int) (tasks []events.TaskID) {
	t.Helper()
	for i := range count {
		c := &eventstest.Chain{Task: events.NewTaskID(time.Now().Add(-24 * time.Hour))}
		c.Grow(t, n, 1+i%3)
		tasks = append(tasks, c.Task)
	}
	for _, task := range tasks {
		require.NoError(t, n.Archive(t.Context(), task))
	}
	return tasks
}

func isRemoved(t *testing.T, n *bustest.Node, task events.TaskID) {
	t.Helper()
	read := 0
	for _, err := range n.Read(t.Context(), task, 1) {
		read++
		assert.Equal(t, fault.Gone, fault.CodeOf(err))
	}
	assert.Equal(t, 1, read)
}

// What a lookup has learned of the records of removals does not hide those that come later.
func TestRemovalAfterLookups(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	tasks := archivedDay(t, n, 20)
	for i := 0; i < len(tasks); i += 5 {
		require.NoError(t, n.Remove(t.Context(), tasks[i:i+5]))
		for range 1500 { // so many reach all 256 subjects of records
			for _, err := range n.Read(t.Context(), events.NewTaskID(time.Now().Add(-time.Hour)), 1) {
				t.Fatal("there is no such task", err)
			}
		}
		for _, task := range tasks[:i+5] {
			isRemoved(t, n, task)
		}
	}
}

// A store whose newest tasks were removed is undamaged: it opens again, and a full check reports nothing.
func TestStoreWithoutRemovedTasks(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tasks := archivedDay(t, n, 30)
	require.NoError(t, n.Remove(t.Context(), tasks[10:]))
	for range 2 {
		report, err := n.Verify(t.Context(), nil)
		require.NoError(t, err)
		assert.Empty(t, report.Problems)
		assert.EqualValues(t, 20, report.Removed)
		assert.EqualValues(t, 10, report.Tasks)
		assert.Len(t, eventstest.ArchivedHeadsOf(t, n), 10)
		for _, task := range tasks[10:] {
			isRemoved(t, n, task)
		}
		n.Reopen(t)
	}
	file := filepath.Join(t.TempDir(), "a.backup")
	_, err := dialNode(t, n).Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	restored, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: filepath.Join(t.TempDir(), "data")})
	require.NoError(t, err)
	assert.Zero(t, restored.Report.Found)
	assert.EqualValues(t, 20, restored.Report.Removed)
	status, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.Nil(t, status.Refusing, "the mark named a task that was removed")
}

// A removal that was interrupted after its record has lost nothing, and the next one completes it.
func TestRemovalIsFinished(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	task := archivedDay(t, n, 2)[0]
	require.NoError(t, n.RecordRemoved(t.Context(), task))
	n.Reopen(t)
	assert.Len(t, eventstest.History(t, n, task, 1), 1, "it is still there")
	assert.Contains(t, eventstest.ArchivedHeadsOf(t, n), task)
	for range 2 {
		report, err := n.Verify(t.Context(), nil)
		require.NoError(t, err)
		assert.Empty(t, report.Problems)
		require.NoError(t, n.Remove(t.Context(), []events.TaskID{task}))
		isRemoved(t, n, task)
		n.Reopen(t)
	}
}

func TestPositionsOfRemovedTasks(t *testing.T) {
	t.Parallel()
	for text, positions := range map[string][]uint64{"3": {3}, "3-5,9": {3, 4, 5, 9}, "1,3,5-6": {1, 3, 5, 6}} {
		assert.Equal(t, text, bus.FormatPositions(positions))
		got, err := bus.ParsePositions(text)
		require.NoError(t, err)
		assert.Equal(t, positions, got)
	}
	for _, text := range []string{"", "x", "5-3", "1,", "-1", "1-"} {
		_, err := bus.ParsePositions(text)
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err), text)
	}
}
