package bus_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// Histories that were archived at about the same time share subjects. They are read, listed, checked and removed like others, also after a
// restart, when no further history comes to the groups that there are.
func TestGroupedHistories(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	want := map[events.TaskID][]events.Stored{}
	archiveSome := func(count int) {
		var made []*eventstest.Chain
		for range count {
			c := eventstest.NewChain()
			want[c.Task] = archived(c.Grow(t, n, 2))
			made = append(made, c)
		}
		for _, c := range made {
			require.NoError(t, n.Archive(t.Context(), c.Task))
		}
	}
	check := func() {
		t.Helper()
		for task, history := range want {
			assert.Equal(t, history, eventstest.History(t, n, task, 1))
		}
		assert.Len(t, eventstest.ArchivedHeadsOf(t, n), len(want))
		requireIntact(t, n)
	}
	archiveSome(80)
	assert.Less(t, len(archiveSubjects(t, n)), 40)
	check()
	n.Reopen(t)
	archiveSome(40)
	check()

	var gone []events.TaskID
	for task := range want {
		gone = append(gone, task)
	}
	gone = gone[:20]
	require.NoError(t, n.Remove(t.Context(), gone))
	for _, task := range gone {
		delete(want, task)
		for _, err := range n.Read(t.Context(), task, 1) {
			assert.Equal(t, fault.Gone, fault.CodeOf(err))
		}
	}
	check()
	n.Reopen(t)
	check()
}

// The tasks of a batch have the same time. They share subjects all the same.
func TestBatchIsGrouped(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	now := time.Now()
	const tasks = 300
	for range tasks {
		c := &eventstest.Chain{Task: events.NewTaskID(now)}
		c.Grow(t, n, 1)
		require.NoError(t, n.Archive(t.Context(), c.Task))
	}
	assert.Len(t, eventstest.ArchivedHeadsOf(t, n), tasks)
	assert.Less(t, len(archiveSubjects(t, n)), tasks/6)
}

// archiveSubjects returns the subjects of the archive without those of removals.
func archiveSubjects(t *testing.T, n *bustest.Node) []string {
	t.Helper()
	stream, err := client(t, n).Stream(t.Context(), "ORCH_ARCHIVE")
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("orch.ar.group.*"))
	require.NoError(t, err)
	all, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	require.NotEmpty(t, info.State.Subjects)
	var subjects []string
	for s := range all.State.Subjects {
		subjects = append(subjects, s)
	}
	return subjects
}

// A large history has a subject of its own.
func TestLargeHistoryIsAlone(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	small, large := eventstest.NewChain(), eventstest.NewChain()
	small.Grow(t, n, 1)
	growBy(t, n, large, 20<<10)
	for _, c := range []*eventstest.Chain{small, large} {
		require.NoError(t, n.Archive(t.Context(), c.Task))
		require.Len(t, eventstest.History(t, n, c.Task, 1), 1)
	}
	subjects := archiveSubjects(t, n)
	slices.Sort(subjects)
	require.Len(t, subjects, 2)
	day := large.Task.Time().UTC().Format("20060102")
	assert.Equal(t, []string{"orch.ar." + day + "." + string(large.Task), "orch.ar.group." + string(small.Task)[5:12]}, subjects)
}

// Damage to an archived history that appears while the node runs costs no other task: neither those of the same group nor open ones that
// could be in it.
func TestRuntimeDamageInAGroup(t *testing.T) {
	t.Parallel()
	for _, which := range []int{0, 2, 4} {
		n := bustest.NewNode(t, bus.ServerConfig{})
		open := eventstest.NewChain()
		history := open.Grow(t, n, 2)
		var chains []*eventstest.Chain
		for range 5 {
			c := eventstest.NewChain()
			c.Grow(t, n, 2)
			require.NoError(t, n.Archive(t.Context(), c.Task))
			chains = append(chains, c)
		}
		n.Reopen(t) // so that reads look in the archive
		spoil(t, n, "ORCH_ARCHIVE", chains[which].Task)

		assert.Equal(t, history, eventstest.History(t, n, open.Task, 1))
		for i, c := range chains {
			if i != which {
				assert.Len(t, eventstest.History(t, n, c.Task, 1), 2)
				continue
			}
			for _, err := range n.Read(t.Context(), c.Task, 1) {
				assert.Equal(t, fault.DataLoss, fault.CodeOf(err), "message %d", which)
			}
		}
	}
}
