package bus_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events/eventstest"
)

// The store measures appends that were acknowledged, and the syncs that they waited for.
func TestTiming(t *testing.T) {
	t.Parallel()
	d := newDisk()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Fsync, Sync: d.sync})
	before := n.Timing()
	eventstest.NewChain().Grow(t, n, 5)
	after := n.Timing()
	assert.Equal(t, before.Appends.Count+5, after.Appends.Count)
	assert.Greater(t, after.Syncs.Count, before.Syncs.Count)
	assert.Greater(t, after.Appends.Sum, before.Appends.Sum)
	assert.Zero(t, after.Failed)
}

// Without a sync of this process there is nothing to measure.
func TestTimingWithoutSyncs(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	eventstest.NewChain().Grow(t, n, 2)
	assert.Equal(t, uint64(2), n.Timing().Appends.Count)
	assert.Nil(t, n.Timing().Syncs)
}
