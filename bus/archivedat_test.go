package bus_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// A history that a scan of the archive has found is the same there as by its id, whether it is in a group, alone, of several messages, or was
// removed since.
func TestReadArchived(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	want := map[events.TaskID][]events.Stored{}
	for _, commits := range []int{1, 3, 60, 1500} {
		c := eventstest.NewChain()
		want[c.Task] = archived(c.Grow(t, n, commits))
		require.NoError(t, n.Archive(t.Context(), c.Task))
	}
	found := map[events.TaskID]events.ArchivedHead{}
	for h, err := range n.ArchivedHeadsAfter(t.Context(), 0) {
		require.NoError(t, err)
		found[h.Task] = h
		assert.Equal(t, want[h.Task], collected(t, n.ReadArchived(t.Context(), h)))
	}
	require.Len(t, found, len(want))
	for task, h := range found {
		moved := h
		moved.Position++ // as if another history were there
		assert.Equal(t, want[task], collected(t, n.ReadArchived(t.Context(), moved)))
		require.NoError(t, n.Remove(t.Context(), []events.TaskID{task}))
		for _, err := range n.ReadArchived(t.Context(), h) {
			assert.Equal(t, fault.Gone, fault.CodeOf(err))
		}
	}
}
