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

// If the clock was set back between two attempts to archive a task, the second attempt completes the first one all the same: there is one
// copy, with the commits that were made between them.
func TestArchivingAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	const ahead = 500 * time.Millisecond
	interrupted := &lookedAt{fakeLease: newLease(5)}
	interrupted.looks.Store(1000)
	before := openWith(t, n, interrupted)
	c := &eventstest.Chain{Task: events.NewTaskID(time.Now().Add(ahead))}
	c.Grow(t, before, 2)
	interrupted.looks.Store(1)
	err := before.Archive(t.Context(), c.Task)
	require.Equal(t, bus.Fenced, fault.From(err).Reason, "%v", err)

	after := openWith(t, n, newLease(9))
	c.Grow(t, after, 1)
	<-time.After(time.Until(c.Task.Time().Add(time.Millisecond)))
	require.NoError(t, after.Archive(t.Context(), c.Task))
	assert.Len(t, collected(t, after.Read(t.Context(), c.Task, 1)), 3)
	report, err := after.Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found, report.Problems)
	assert.EqualValues(t, 3, report.Archived)
	require.NoError(t, after.Remove(t.Context(), []events.TaskID{c.Task}))
	requireIntact(t, n)
}
