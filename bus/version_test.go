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
	"github.com/orch-dev/orch/fault"
)

// A store of before there were versions has the first one from then on: nothing was used that the programs of that version ignore.
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
	assert.Equal(t, 1, version)
}

// Somebody may finalize a store, of whatever version it is. A backup of it is refused by older programs, and what is restored is
// finalized too.
func TestFinalize(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	dir := n.Config.DataDir
	_, err := bus.Finalize(t.TempDir())
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	require.NoError(t, os.Remove(filepath.Join(dir, "store.json")))
	v, err := bus.ReadVersion(dir)
	require.NoError(t, err, "a store of before there were versions")
	assert.Equal(t, bus.VersionInfo{Version: 1, Known: bus.StoreVersion, Needs: "0.1.0"}, v)
	for range 2 {
		v, err = bus.Finalize(dir)
		require.NoError(t, err)
		assert.Equal(t, bus.StoreVersion, v.Version)
	}
	n.Start(t)
	_, err = bus.Finalize(dir)
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	file := filepath.Join(t.TempDir(), "a.backup")
	m, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, m.Store)
	n.Stop(t)
	restored := filepath.Join(t.TempDir(), "data")
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: restored})
	require.NoError(t, err)
	v, err = bus.ReadVersion(restored)
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, v.Version)
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
	assert.Equal(t, 1, version)
}

// An older store has the version that it needs: the first until somebody places a hold, which an older orch would ignore, or until told.
func TestTheVersionRisesWithUse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		use     func(*bus.Store) error
		version int
	}{
		"a hold": {func(s *bus.Store) error { _, err := s.OpenJournal(t.Context(), bus.HoldsJournal); return err }, 2},
		"told":   {func(s *bus.Store) error { return s.RaiseVersion(t.Context(), bus.StoreVersion) }, bus.StoreVersion},
	} {
		dir := oldDir(t)
		n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir, Program: "9.1.0"})
		for _, journal := range []string{bus.SchedulesJournal, bus.HooksJournal, bus.AuditJournal} {
			_, err := n.OpenJournal(t.Context(), journal)
			require.NoError(t, err, name)
		}
		v, err := n.Version(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, bus.VersionInfo{Version: 1, Known: bus.StoreVersion, Needs: "0.1.0", Writer: "9.1.0"}, v, name)
		require.NoError(t, tc.use(n.Store), name)
		v, err = bus.ReadVersion(dir)
		require.NoError(t, err, name)
		assert.Equal(t, bus.VersionInfo{Version: tc.version, Known: bus.StoreVersion, Needs: "0.2.0", Writer: "9.1.0"}, v, name)
		require.NoError(t, n.RaiseVersion(t.Context(), 1), name)
		again, err := n.Version(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, v, again, "a version never falls")
	}
}

// So does one on an external server, also if several nodes raise it at once.
func TestTheExternalVersionRisesWithUse(t *testing.T) {
	t.Parallel()
	c := bustest.Dial(t, bustest.NewNode(t, bus.ServerConfig{}), "")
	s, err := c.OpenStore(t.Context(), bus.StoreConfig{Program: "9.1.0"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close(context.Background())) }()
	v, err := s.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, bus.VersionInfo{Version: 1, Known: bus.StoreVersion, Needs: "0.1.0", Writer: "9.1.0"}, v)
	done := make(chan error)
	for range 4 {
		go func() { done <- s.RaiseVersion(t.Context(), 2) }()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	v, err = s.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, v.Version)
}
