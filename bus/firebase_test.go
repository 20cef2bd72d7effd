package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/embedded"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

const backlog = 64

// databasesOf opens databases on one node, each with its own journal.
type databases struct {
	node  *bustest.Node
	make  func(embedded.Config) *embedded.Database
	count atomic.Int64
	mu    sync.Mutex
	names map[firebase.Backend]string
}

func openDatabases(t *testing.T, level bus.Durability, open func(embedded.Config) *embedded.Database) *databases {
	t.Helper()
	return &databases{node: bustest.NewNode(t, bus.ServerConfig{Durability: level}), make: open, names: map[firebase.Backend]string{}}
}

func (d *databases) open(tb testing.TB) firebase.Backend {
	tb.Helper()
	return d.again(tb, "TEST"+strconv.FormatInt(d.count.Add(1), 10))
}

func (d *databases) again(tb testing.TB, name string) firebase.Backend {
	tb.Helper()
	b := d.make(embedded.Config{
		Journal: func(ctx context.Context) (embedded.Journal, error) { return d.node.OpenJournal(ctx, name) },
		Backlog: backlog, Entries: 100, // a snapshot now and then
	})
	tb.Cleanup(b.Close)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[b] = name
	return b
}

// reopen reads the journal of a database again.
func (d *databases) reopen(tb testing.TB, b firebase.Backend) firebase.Backend {
	tb.Helper()
	old, ok := b.(*embedded.Database)
	require.True(tb, ok)
	old.Close()
	d.mu.Lock()
	name := d.names[b]
	d.mu.Unlock()
	return d.again(tb, name)
}

// The conformance kits on a real server.
func TestEmbeddedDatabases(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		t.Run("realtime "+string(level), func(t *testing.T) {
			t.Parallel()
			d := openDatabases(t, level, embedded.NewRealtime)
			firebasetest.Realtime(t, firebasetest.Kit{Open: d.open, Reopen: d.reopen, Backlog: backlog})
		})
		t.Run("firestore "+string(level), func(t *testing.T) {
			t.Parallel()
			d := openDatabases(t, level, embedded.NewFirestore)
			firebasetest.Firestore(t, firebasetest.Kit{Open: d.open, Reopen: d.reopen, Backlog: backlog})
		})
	}
}

// realtimeOf opens the Realtime Database of a node.
func realtimeOf(t *testing.T, n *bustest.Node, cfg embedded.Config) *embedded.Database {
	t.Helper()
	cfg.Journal = func(ctx context.Context) (embedded.Journal, error) { return n.OpenJournal(ctx, bus.RealtimeJournal) }
	d := embedded.NewRealtime(cfg)
	t.Cleanup(d.Close)
	return d
}

func setTo(value any) firebase.Write { return firebase.Write{Operation: firebase.Set, Data: value} }

// S3-036: everything is there when the server was stopped and started, from a snapshot and from the entries behind it.
func TestDatabaseOutlivesTheServer(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	for round := range 3 {
		d := realtimeOf(t, n, embedded.Config{Entries: 10})
		for i := range 25 {
			_, err := d.Write(t.Context(), "r"+strconv.Itoa(round)+"/k"+strconv.Itoa(i), setTo(float64(i)))
			require.NoError(t, err)
		}
		d.Close()
		n.Stop(t)
		n.Start(t)
		again := realtimeOf(t, n, embedded.Config{})
		for r := range round + 1 {
			s, err := again.Read(t.Context(), "r"+strconv.Itoa(r), firebase.Query{OrderBy: "$key"})
			require.NoError(t, err)
			assert.Len(t, s.Children, 25)
		}
		again.Close()
	}
	info, err := mustJetStream(t, n).StreamInfo("ORCH_JOURNAL_REALTIME")
	require.NoError(t, err)
	assert.Equal(t, uint64(75), info.State.LastSeq)
	assert.Less(t, info.State.Msgs, uint64(40), "a start reads a snapshot and what came since")
	requireIntact(t, n)
}

// Two databases on one journal, as in two processes: no write is lost, and none is decided on old data.
func TestWritesOfOthersAreTakenOver(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	both := []*embedded.Database{realtimeOf(t, n, embedded.Config{}), realtimeOf(t, n, embedded.Config{})}
	increment := func(s firebase.Snapshot) (firebase.Write, error) {
		count, _ := s.Data.(float64)
		return setTo(count + 1), nil
	}
	const each = 20
	var group sync.WaitGroup
	for _, d := range both {
		group.Go(func() {
			for range each {
				_, err := firebase.Transact(t.Context(), d, "n", increment)
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	s, err := realtimeOf(t, n, embedded.Config{}).Read(t.Context(), "n", firebase.Query{})
	require.NoError(t, err)
	assert.Equal(t, any(float64(2*each)), s.Data)
}

// A change larger than a message is refused, and so is more data than a database may hold.
func TestDatabaseIsBounded(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := bustest.NewNode(t, bus.ServerConfig{})
	d := realtimeOf(t, n, embedded.Config{Most: 20 << 20})
	_, err := d.Write(t.Context(), "big", setTo(strings.Repeat("x", 9<<20)))
	assert.Equal(t, refusal.SizeLimitExceeded, fault.From(err).Reason)
	large := strings.Repeat("x", 7<<20)
	for _, path := range []string{"a", "b"} {
		_, err = d.Write(t.Context(), path, setTo(large))
		require.NoError(t, err)
	}
	_, err = d.Write(t.Context(), "c", setTo(large))
	assert.Equal(t, refusal.QuotaExceeded, fault.From(err).Reason)
	_, err = d.Write(t.Context(), "a", firebase.Write{Operation: firebase.Delete})
	require.NoError(t, err)
	d.Close()
	s, err := realtimeOf(t, n, embedded.Config{}).Read(t.Context(), "", firebase.Query{})
	require.NoError(t, err)
	assert.Equal(t, any(map[string]any{"b": large}), s.Data)
}

// Errors of the store are those of a database (S3-025).
func TestDatabaseWithoutItsServer(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	d := realtimeOf(t, n, embedded.Config{})
	_, err := d.Write(t.Context(), "a", setTo(1.0))
	require.NoError(t, err)
	n.Stop(t)
	_, err = d.Write(t.Context(), "a", setTo(2.0))
	assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason)
	s, err := d.Read(t.Context(), "a", firebase.Query{})
	require.NoError(t, err)
	assert.Equal(t, any(1.0), s.Data, "nobody sees what was not kept")
	n.Start(t)
	_, err = realtimeOf(t, n, embedded.Config{}).Write(t.Context(), "a", setTo(3.0))
	require.NoError(t, err)
}

func mustJetStream(t *testing.T, n *bustest.Node) nats.JetStreamContext {
	t.Helper()
	js, err := n.Conn.NATS().JetStream()
	require.NoError(t, err)
	return js
}

// A backup contains the databases, also while snapshots are taken.
func TestBackupHoldsDatabases(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	d := realtimeOf(t, n, embedded.Config{Entries: 5})
	for i := range 33 {
		_, err := d.Write(t.Context(), "k"+strconv.Itoa(i), setTo(float64(i)))
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar")
	_, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	_, err = d.Write(t.Context(), "later", setTo(1.0))
	require.NoError(t, err)
	d.Close()
	dir := filepath.Join(t.TempDir(), "restored")
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: dir})
	require.NoError(t, err)
	again := bustest.NewNode(t, bus.ServerConfig{DataDir: dir})
	s, err := realtimeOf(t, again, embedded.Config{}).Read(t.Context(), "", firebase.Query{OrderBy: "$key"})
	require.NoError(t, err)
	assert.Len(t, s.Children, 33)
}

// A damaged journal is found before the server opens it.
func TestDamagedJournalIsFound(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	d := realtimeOf(t, n, embedded.Config{})
	for i := range 20 {
		_, err := d.Write(t.Context(), "k"+strconv.Itoa(i), setTo("unmistakable"))
		require.NoError(t, err)
	}
	d.Close()
	n.Stop(t)
	blocks, err := filepath.Glob(filepath.Join(n.Config.DataDir, "*/jetstream/$G/streams/ORCH_JOURNAL_REALTIME/msgs/*.blk"))
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	data, err := os.ReadFile(blocks[0])
	require.NoError(t, err)
	at := bytes.Index(data, []byte("unmistakable"))
	require.Positive(t, at)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(blocks[0], data, 0o600))
	err = n.Serve(t)
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "ORCH_JOURNAL_REALTIME")
}

// A node on an external server stores its databases there.
func TestDatabaseOverTheNetwork(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	conn, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir})
	require.NoError(t, err)
	defer conn.Close()
	store, err := conn.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, store.Close(context.WithoutCancel(t.Context()))) }()
	for round := range 2 {
		d := embedded.NewFirestore(embedded.Config{
			Journal: func(ctx context.Context) (embedded.Journal, error) {
				return store.OpenJournal(ctx, bus.FirestoreJournal)
			}, Entries: 7,
		})
		for i := range 20 {
			_, err := d.Write(t.Context(), fmt.Sprintf("c%d/d%d", round, i), setTo(map[string]any{"n": float64(i)}))
			require.NoError(t, err)
		}
		s, err := d.Read(t.Context(), "c0", firebase.Query{})
		require.NoError(t, err)
		assert.Len(t, s.Children, 20)
		d.Close()
	}
}
