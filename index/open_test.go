package index_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
)

// checkOpen compares the open tasks with the simple list.
func (w *world) checkOpen() {
	w.t.Helper()
	var heads, gotHeads []events.Head
	var lines, gotLines []api.Summary
	for _, id := range w.ids() {
		if s := w.lines[id]; !s.State.Terminal() {
			heads = append(heads, events.Head{Task: id, State: string(s.State), Parent: s.Parent, Created: s.CreatedAt, At: s.UpdatedAt})
			lines = append(lines, s)
		}
	}
	for h := range w.x.OpenHeads() {
		gotHeads = append(gotHeads, h)
	}
	for line := range w.x.OpenLines() {
		gotLines = append(gotLines, line)
	}
	require.ElementsMatch(w.t, heads, gotHeads)
	require.ElementsMatch(w.t, lines, gotLines)
	require.Equal(w.t, len(lines), w.x.Open())
}

// putOpen puts open tasks of all priorities into an index, and returns their ids.
func putOpen(x *index.Index, tasks int) []events.TaskID {
	var ids []events.TaskID
	for i := range tasks {
		at := began.Add(time.Duration(i) * time.Microsecond)
		line := api.Summary{ID: events.NewTaskID(at), State: statemachine.NeedsAction, Priority: []string{"critical", "high", "normal", "low"}[i%4], CreatedAt: at, UpdatedAt: at}
		x.Put(line, uint64(i))
		ids = append(ids, line.ID)
	}
	return ids
}

// Open tasks are yielded in parts. One that is open all the time is yielded once, whatever happens to others meanwhile.
func TestOpenWhileTasksEnd(t *testing.T) {
	t.Parallel()
	x := index.New("", "")
	const tasks = 40_000
	ids := putOpen(x, tasks)
	ends := map[events.TaskID]bool{}
	for i := 0; i < tasks; i += 3 {
		ends[ids[i]] = true
	}
	seen := map[events.TaskID]int{}
	for h := range x.OpenHeads() {
		if seen[h.Task]++; len(seen) != tasks/10 {
			continue
		}
		for id := range ends {
			x.Put(api.Summary{ID: id, State: statemachine.Done, CreatedAt: id.Time(), UpdatedAt: id.Time()}, tasks)
		}
	}
	for _, id := range ids {
		assert.LessOrEqual(t, seen[id], 1)
		assert.True(t, seen[id] == 1 || ends[id], "%s is open", id)
	}
	assert.Less(t, len(seen), tasks, "the later ones of those that have ended are not yielded")
	assert.Equal(t, tasks-len(ends), x.Open())
}

// An imported task is not open, in whatever state its history ends.
func TestImportedIsNotOpen(t *testing.T) {
	t.Parallel()
	x := index.New("", "")
	id := putOpen(x, 1)[0]
	imported := api.Summary{ID: events.NewTaskID(began), State: statemachine.InProgress, Imported: true, Archived: true, CreatedAt: began, UpdatedAt: began}
	x.Put(imported, 0)
	assert.Equal(t, 1, x.Open())
	for h := range x.OpenHeads() {
		assert.Equal(t, id, h.Task)
	}
	require.NoError(t, x.Remove([]events.TaskID{imported.ID}))
	assert.Equal(t, 1, x.Open())
}
