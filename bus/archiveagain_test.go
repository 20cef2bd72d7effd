package bus_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// A node that was suspended while it archived a task, and has lost its lease, adds its copy to a group when the next node has archived the
// task with more commits. Nobody reads that copy.
func TestLateCopyInAGroup(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	suspended := &lookedAt{fakeLease: newLease(5)}
	suspended.looks.Store(1000)
	before := openWith(t, n, suspended)
	now := time.Now()
	c, other := &eventstest.Chain{Task: events.NewTaskID(now)}, &eventstest.Chain{Task: events.NewTaskID(now)}
	c.Grow(t, before, 2)
	other.Grow(t, before, 1)
	require.NoError(t, before.Archive(t.Context(), other.Task))
	suspended.looks.Store(1)
	require.Error(t, before.Archive(t.Context(), c.Task))
	nc, err := nats.Connect("", nats.InProcessServer(n.Server), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	archive, err := js.Stream(t.Context(), "ORCH_ARCHIVE")
	require.NoError(t, err)
	late, err := archive.GetMsg(t.Context(), archive.CachedInfo().State.LastSeq)
	require.NoError(t, err)
	require.Equal(t, string(c.Task), late.Header.Get("Orch-Task"))
	maps.DeleteFunc(late.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") }) // those of the answer
	require.NoError(t, archive.DeleteMsg(t.Context(), late.Sequence))                                            // it is still on its way

	after := openWith(t, n, newLease(9))
	c.Grow(t, after, 1)
	require.NoError(t, after.Archive(t.Context(), c.Task))
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: late.Subject, Header: late.Header, Data: late.Data})
	require.NoError(t, err)
	assert.Len(t, collected(t, after.Read(t.Context(), c.Task, 1)), 3)
	require.NoError(t, after.Remove(t.Context(), []events.TaskID{c.Task}))
	for _, err := range after.Read(t.Context(), c.Task, 1) {
		assert.Equal(t, fault.Gone, fault.CodeOf(err))
	}
}
