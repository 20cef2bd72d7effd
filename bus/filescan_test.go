package bus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

// headsAfter returns the heads after a position, and checks that they are in the order of the log.
func headsAfter(t *testing.T, log events.Indexes, after uint64) []events.Head {
	t.Helper()
	var all []events.Head
	for h, err := range log.HeadsAfter(t.Context(), after) {
		require.NoError(t, err)
		require.Greater(t, h.Seq, after)
		after = h.Seq
		all = append(all, h)
	}
	return all
}

// A scan of many heads reads the files of the embedded server, and finds what the server has: while it runs, after a restart,
// after tasks have left the live log, and after a kill, when the index of the server is gone.
func TestScanOfFiles(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	var chains []*eventstest.Chain
	for range 1500 {
		c := eventstest.NewChain()
		c.Grow(t, n, 3)
		chains = append(chains, c)
	}
	remote := remoteScan(t, n)
	same := func(t *testing.T) {
		t.Helper()
		for _, after := range []uint64{0, 100, 4499, 4500} {
			assert.Equal(t, headsAfter(t, remote(), after), headsAfter(t, n, after), "after %d", after)
		}
	}
	same(t)
	for i := 0; i < len(chains); i += 5 {
		require.NoError(t, n.Archive(t.Context(), chains[i].Task))
	}
	same(t)
	n.Reopen(t)
	same(t)
	n.Stop(t)
	require.NoError(t, os.Remove(filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "ORCH_EVENTS", "msgs", "index.db")))
	n.Start(t)
	same(t)
}

// remoteScan returns a function that opens the store of a node over the network: it cannot read the files.
func remoteScan(t *testing.T, n *bustest.Node) func() *bus.Store {
	t.Helper()
	return func() *bus.Store {
		c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		s, err := c.OpenStore(t.Context(), bus.StoreConfig{Durability: bus.Relaxed})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
		return s
	}
}
