package bus_test

import (
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

// Readers remember where the histories of a group are. They notice what comes to the group and what is removed from it.
func TestGroupsThatWereRead(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	now := time.Now()
	want := map[events.TaskID][]events.Stored{}
	archiveSome := func(count int) {
		for range count {
			c := &eventstest.Chain{Task: events.NewTaskID(now)}
			want[c.Task] = archived(c.Grow(t, n, 1))
			require.NoError(t, n.Archive(t.Context(), c.Task))
		}
	}
	check := func() {
		t.Helper()
		for task, history := range want {
			assert.Equal(t, history, eventstest.History(t, n, task, 1))
		}
		for _, err := range n.Read(t.Context(), events.NewTaskID(now), 1) {
			assert.Equal(t, fault.NotFound, fault.CodeOf(err))
		}
	}
	for _, more := range []int{20, 0, 10, 30, 60} {
		archiveSome(more)
		check()
		check()
	}
	var gone []events.TaskID
	for task := range want {
		if len(gone) < 50 {
			gone = append(gone, task)
			delete(want, task)
		}
	}
	require.NoError(t, n.Remove(t.Context(), gone))
	check()
	for _, task := range gone {
		for _, err := range n.Read(t.Context(), task, 1) {
			assert.Equal(t, fault.Gone, fault.CodeOf(err), task)
		}
	}
	archiveSome(10)
	check()
	requireIntact(t, n)
}
