package bus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
)

// A store of an older version that this one opens has its version from then on, so that older programs leave it alone.
func TestAnOlderStoreIsRaised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := bus.ServerConfig{DataDir: dir, Durability: bus.Relaxed}
	server, err := bus.StartServer(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, server.Close(t.Context()))
	old, err := bus.OldVersion()
	require.NoError(t, err)
	path := filepath.Join(dir, "store.json")
	require.NoError(t, os.WriteFile(path, old, 0o600))
	server, err = bus.StartServer(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close(context.Background())) }()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	version, err := bus.VersionOf(data)
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, version)
}

// So does one on an external server.
func TestAnOlderExternalStoreIsRaised(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := bustest.Dial(t, n, "")
	js, err := jetstream.New(c.NATS())
	require.NoError(t, err)
	meta, err := js.KeyValue(t.Context(), "ORCH_META")
	require.NoError(t, err)
	old, err := bus.OldVersion()
	require.NoError(t, err)
	_, err = meta.Put(t.Context(), "version", old)
	require.NoError(t, err)
	s, err := c.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	entry, err := meta.Get(t.Context(), "version")
	require.NoError(t, err)
	version, err := bus.VersionOf(entry.Value())
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, version)
}
