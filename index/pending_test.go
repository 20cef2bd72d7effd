package index_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
)

// putMany changes each of some tasks many times, and returns the largest number of changes that waited.
func putMany(x *index.Index, tasks, times int) (most int) {
	ids := make([]events.TaskID, tasks)
	for i := range ids {
		ids[i] = events.NewTaskID(began)
	}
	for n := range times * tasks {
		line := api.Summary{ID: ids[n%tasks], State: statemachine.InProgress, CreatedAt: began, UpdatedAt: began}
		if n >= (times-1)*tasks {
			line.State = statemachine.Done
		}
		x.Put(line, uint64(n)+1)
		most = max(most, x.Pending())
	}
	return most
}

// While changes cannot be applied, those wait that are not superseded: a multiple of the number of tasks.
func TestPendingChangesAreBounded(t *testing.T) {
	t.Parallel()
	for _, tasks := range []int{10, 5000} {
		x := index.New("", "")
		x.Locked(func() { assert.LessOrEqual(t, putMany(x, tasks, 20), max(2*tasks, 4096)) })
		assert.Equal(t, tasks, x.Finished())
	}
}

// Changes are applied while the file is read, so they do not wait for its end. They replace what the file contains.
func TestChangesWhileTheFileIsRead(t *testing.T) {
	t.Parallel()
	file := saved(t)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before := index.New(file, "log")
	t.Cleanup(before.Close)
	before.Load(0, 10)
	page, _ := before.List(api.ListRequest{Limit: 10}, nil, nil)
	first, last := page[9].ID, page[0].ID
	path := filepath.Join(t.TempDir(), "lists.idx")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	x := index.New(path, "log")
	t.Cleanup(x.Close)
	loaded := make(chan uint64)
	go func() {
		_, live := x.Load(0, 10_000_000)
		loaded <- live
	}()
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	half := len(data) / 2
	_, err = pipe.Write(data[:half])
	require.NoError(t, err)

	x.Put(api.Summary{ID: first, Name: "n", State: statemachine.Failed, CreatedAt: began, UpdatedAt: began.Add(time.Hour)}, 11)
	x.MarkArchived(last)
	putMany(x, 100, 1000)
	require.Eventually(t, func() bool { return x.Pending() < 1024 }, time.Minute, time.Millisecond, "they are applied")
	assert.Less(t, x.Finished(), 110)

	_, err = pipe.Write(data[half:])
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	assert.Equal(t, uint64(10), <-loaded)
	assert.Equal(t, 110, x.Finished())
	page, _ = x.List(api.ListRequest{Name: "n", Limit: 20}, nil, nil)
	require.Len(t, page, 10)
	assert.Equal(t, statemachine.Failed, page[9].State)
	assert.True(t, page[0].Archived)
}

// A file that does not fit leaves what was put meanwhile.
func TestChangesBesideAFileOfAnotherLog(t *testing.T) {
	t.Parallel()
	x := index.New(saved(t), "log")
	t.Cleanup(x.Close)
	x.Put(api.Summary{ID: events.NewTaskID(began), State: statemachine.Done, CreatedAt: began, UpdatedAt: began}, 3)
	_, live := x.Load(0, 9)
	assert.Zero(t, live)
	assert.Equal(t, 1, x.Finished())
	require.NoError(t, x.Save(0, 9))
}

// An index of open tasks forgets those that finish.
func TestOnlyOpen(t *testing.T) {
	t.Parallel()
	x := index.NewOpen()
	require.True(t, x.OnlyOpen())
	line := api.Summary{ID: events.NewTaskID(began), State: statemachine.InProgress, CreatedAt: began, UpdatedAt: began}
	x.Put(line, 1)
	_, stats := x.Queue(api.QueueRequest{}, nil, 10, began)
	assert.Equal(t, 1, stats.InProgress)
	line.State = statemachine.Done
	x.Put(line, 2)
	_, stats = x.Queue(api.QueueRequest{}, nil, 10, began)
	assert.Zero(t, stats)
	assert.Zero(t, x.Finished())
}
