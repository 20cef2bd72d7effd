package bus_test

import (
	"os"
	"path/filepath"
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

const newerJournal = "ORCH_JOURNAL_NEWER"

// plantNewer adds to a store what a newer orch may write: a commit of a task, and a journal.
func plantNewer(t *testing.T, n *bustest.Node, c *eventstest.Chain) {
	t.Helper()
	done := make(chan error, 1)
	history := eventstest.History(t, n, c.Task, 1)
	n.Append(events.Record{
		After: history[len(history)-1].Seq, Data: []byte(`{"v":2,"task":"` + string(c.Task) + `","what":["a newer orch knows"]}`),
		Head: events.Head{Task: c.Task, Rev: uint64(len(history)) + 1, State: "PONDERING", Name: "x", At: time.Now(), Created: time.Now()},
	}, func(_ uint64, err error) { done <- err })
	require.NoError(t, <-done)
	js, err := jetstream.New(n.Conn.NATS())
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: newerJournal, Subjects: []string{"orch.journal.NEWER"}})
	require.NoError(t, err)
	for range 3 {
		_, err = js.Publish(t.Context(), "orch.journal.NEWER", []byte(`{"v":7,"whatever":"a newer orch has noted"}`))
		require.NoError(t, err)
	}
}

// requireNewer checks that all that plantNewer has planted is there.
func requireNewer(t *testing.T, n *bustest.Node, c *eventstest.Chain) {
	t.Helper()
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), report.Newer)
	assert.Empty(t, report.Problems)
	var raw []events.Stored
	for s, err := range n.Read(t.Context(), c.Task, 1) {
		require.NoError(t, err)
		raw = append(raw, s)
	}
	require.Len(t, raw, 4)
	assert.Contains(t, string(raw[3].Data), "a newer orch knows")
	js, err := jetstream.New(n.Conn.NATS())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), newerJournal)
	require.NoError(t, err)
	assert.EqualValues(t, 3, stream.CachedInfo().State.Msgs)
}

// newerStore returns a stopped node with three histories, in the second of which plantNewer has planted something.
func newerStore(t *testing.T) (*bustest.Node, []*eventstest.Chain) {
	t.Helper()
	n, chains := histories(t, 3, false)
	n.Start(t)
	plantNewer(t, n, chains[1])
	requireNewer(t, n, chains[1])
	n.Stop(t)
	return n, chains
}

// A salvage gives up what is damaged, and nothing of what a newer orch has written.
func TestSalvageKeepsWhatIsNewer(t *testing.T) {
	t.Parallel()
	n, chains := newerStore(t)
	spoil(t, n, "ORCH_EVENTS", chains[0].Task)
	done, err := bus.Salvage(t.Context(), n.Config.DataDir, nil)
	require.NoError(t, err)
	require.NotNil(t, done.Lost)
	assert.Len(t, done.Lost.Tasks, 1)
	assert.Contains(t, done.Lost.Tasks, chains[0].Task)
	n.Start(t)
	requireNewer(t, n, chains[1])
	assert.Len(t, eventstest.History(t, n, chains[2].Task, 1), 3)
}

// A salvage refuses a store that a newer orch has written, before it changes anything.
func TestSalvageRefusesANewerStore(t *testing.T) {
	t.Parallel()
	n, chains := newerStore(t)
	spoil(t, n, "ORCH_EVENTS", chains[0].Task)
	path := filepath.Join(n.Config.DataDir, "store.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"version":7,"readable_from":1,"needs":"9.1.0"}`), 0o600))
	before, err := os.ReadFile(streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0])
	require.NoError(t, err)
	_, err = bus.Salvage(t.Context(), n.Config.DataDir, nil)
	require.Equal(t, fault.NewerStore, fault.CodeOf(err))
	assert.Equal(t, "use orch 9.1.0 or a newer orch; nothing is damaged", fault.From(err).Hint)
	after, err := os.ReadFile(streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0])
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// A damaged stream of a newer orch is reported, and not set aside: the newer one needs it.
func TestADamagedStreamOfANewerOrchStays(t *testing.T) {
	t.Parallel()
	n, _ := newerStore(t)
	path := streamFiles(t, n, newerJournal, "*.blk")[0]
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	for _, start := range []func() error{
		func() error { return n.Serve(t) },
		func() error { _, err := bus.Salvage(t.Context(), n.Config.DataDir, nil); return err },
	} {
		require.Equal(t, fault.DataLoss, fault.CodeOf(start()))
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, data, after)
	}
}

// A backup has the journals of a newer orch too, and a restore brings them back.
func TestBackupHasTheJournalsOfANewerOrch(t *testing.T) {
	t.Parallel()
	n, chains := newerStore(t)
	n.Start(t)
	file := filepath.Join(t.TempDir(), "a.backup")
	m, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, m.Store)
	back := &bustest.Node{Config: bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "data")}}
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: back.Config.DataDir})
	require.NoError(t, err)
	back.Start(t)
	t.Cleanup(func() { back.Stop(t) })
	requireNewer(t, back, chains[1])
}

// A backup with a journal that 0.1.0 does not know has a version that 0.1.0 refuses, and a restored hold makes it refuse the store.
func TestBackupsHaveTheVersionOfTheirParts(t *testing.T) {
	t.Parallel()
	for journal, want := range map[string]struct{ backup, store int }{
		bus.FirestoreJournal: {1, 1}, bus.SchedulesJournal: {2, 1}, bus.AuditJournal: {2, 1}, bus.HoldsJournal: {2, 2},
	} {
		n := bustest.NewNode(t, bus.ServerConfig{DataDir: oldDir(t)})
		_, err := n.OpenJournal(t.Context(), journal)
		require.NoError(t, err)
		file, dir := filepath.Join(t.TempDir(), "a.backup"), filepath.Join(t.TempDir(), "data")
		m, err := n.Backup(t.Context(), file, bus.BackupConfig{})
		require.NoError(t, err)
		assert.Equal(t, want.backup, m.Store, journal)
		_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: dir})
		require.NoError(t, err)
		v, err := bus.ReadVersion(dir)
		require.NoError(t, err)
		assert.Equal(t, want.store, v.Version, journal)
	}
}
