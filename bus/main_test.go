package bus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is an embedded server with an open store.
type node struct {
	*bus.Store
	cfg    bus.ServerConfig
	store  bus.StoreConfig
	server *bus.Server
	conn   *bus.Conn
	open   bool
}

func startNode(tb testing.TB, cfg bus.ServerConfig) *node {
	tb.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = tb.TempDir()
	}
	n := &node{cfg: cfg}
	n.start(tb)
	tb.Cleanup(func() { n.stop(tb) })
	return n
}

func (n *node) start(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, n.serve(tb))
	n.openStore(tb)
}

// serve starts the server alone.
func (n *node) serve(tb testing.TB) (err error) {
	tb.Helper()
	n.server, err = bus.StartServer(tb.Context(), n.cfg)
	return err
}

func (n *node) openStore(tb testing.TB) {
	tb.Helper()
	var err error
	n.open = true
	n.conn, err = n.server.Connect(tb.Context())
	require.NoError(tb, err)
	n.Store, err = n.conn.OpenStore(tb.Context(), n.store)
	require.NoError(tb, err, "%v", errors.Unwrap(err))
}

func (n *node) stop(tb testing.TB) {
	tb.Helper()
	if !n.open {
		return
	}
	n.open = false
	ctx := context.WithoutCancel(tb.Context())
	require.NoError(tb, n.Close(ctx))
	n.conn.Close()
	require.NoError(tb, n.server.Close(ctx))
}

// Reopen stops everything and starts it again on the same directory.
func (n *node) Reopen(t *testing.T) events.Log {
	t.Helper()
	n.stop(t)
	n.start(t)
	return n
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		open := func(t *testing.T) *node {
			t.Helper()
			return startNode(t, bus.ServerConfig{Durability: level})
		}
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eventstest.TestLog(t, func(t *testing.T) events.Log { t.Helper(); return open(t) })
			eventstest.TestBlobs(t, func(t *testing.T) events.Blobs { t.Helper(); return open(t) })
			eventstest.TestCheckpoints(t, func(t *testing.T) events.Checkpoints { t.Helper(); return open(t) })
		})
	}
}
