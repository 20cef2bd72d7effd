package bus_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

// A scan of heads does not wait for tasks that have left the live log meanwhile.
func TestScanWhileTasksMoveToTheArchive(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	const tasks, first = 100, 64
	var all []*eventstest.Chain
	for range tasks {
		c := eventstest.NewChain()
		c.Grow(t, n, 1)
		all = append(all, c)
	}
	began := time.Now()
	seen := map[events.TaskID]bool{}
	for h, err := range n.Heads(t.Context()) {
		require.NoError(t, err)
		if len(seen) == 0 {
			for _, c := range all[first:] {
				require.NoError(t, n.Archive(t.Context(), c.Task))
			}
			began = time.Now()
		}
		seen[h.Task] = true
	}
	assert.Less(t, time.Since(began), 5*time.Second, "with a wait for each it would be 9 s")
	for _, c := range all[:first] {
		assert.True(t, seen[c.Task])
	}
}

// A scan of heads that loses messages, because a slow connection delivers them after a fetch has ended, continues where the
// loss was.
func TestScanLosesMessages(t *testing.T) {
	t.Parallel()
	s, _, p := remoteStore(t, bus.Relaxed)
	const tasks = 2000
	want := map[events.TaskID]uint64{}
	for range tasks {
		c := eventstest.NewChain()
		c.Grow(t, s, 1)
		want[c.Task] = 1
	}
	p.Delay.Store(int64(2 * time.Second)) // a fetch ends after 1.25 s without a message
	got, last := map[events.TaskID]uint64{}, uint64(0)
	for h, err := range s.HeadsAfter(t.Context(), 0) {
		require.NoError(t, err)
		require.Greater(t, h.Seq, last, "in log order, and none twice")
		last, got[h.Task] = h.Seq, h.Rev
	}
	assert.Equal(t, want, got)
	assert.Zero(t, p.Delay.Load(), "no message was late")
}

// Histories are whole while they move to the archive, whenever a reader looks.
func TestReadsWhileTasksMoveToTheArchive(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	const tasks, commits = 300, 2
	var all []*eventstest.Chain
	for range tasks {
		c := eventstest.NewChain()
		c.Grow(t, n, commits)
		all = append(all, c)
	}
	n.Stop(t) // a new store looks for older tasks in the archive first
	n.Start(t)
	var moving atomic.Int64
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for at := moving.Load(); at < tasks; at = moving.Load() {
				count := 0
				for _, err := range n.Read(t.Context(), all[at].Task, 1) {
					if err != nil {
						t.Error(err)
					}
					count++
				}
				assert.Equal(t, commits, count)
			}
		})
	}
	for _, c := range all {
		if err := n.Archive(t.Context(), c.Task); err != nil {
			t.Error(err)
		}
		moving.Add(1)
	}
	readers.Wait()
}
