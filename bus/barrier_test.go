package bus_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
)

// soon is the timeout of events that happen without further action, often the polling interval.
const (
	soon  = time.Minute
	often = 10 * time.Millisecond
)

// disk replaces the disk under the barrier. It records which files were synced.
type disk struct {
	fail  atomic.Bool
	calls atomic.Int64
	// gate is received from before every sync of the live log, if it is set.
	gate chan struct{}

	mu     sync.Mutex
	synced map[uint64]int64 // by inode: the size that is on the disk
	files  []string
}

func newDisk() *disk { return &disk{synced: map[uint64]int64{}} }

func (d *disk) sync(f *os.File) error {
	if d.gate != nil && strings.Contains(f.Name(), "/ORCH_EVENTS/") {
		<-d.gate
	}
	d.calls.Add(1)
	if d.fail.Load() {
		return syscall.EIO
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced[st.Ino] = st.Size
	d.files = append(d.files, f.Name())
	return unix.Fdatasync(int(f.Fd()))
}

// seen forgets and returns the streams that were synced, in order and without repetitions. The one of
// the high-water mark, which moves by itself, is left out.
func (d *disk) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var streams []string
	for _, f := range d.files {
		stream := filepath.Base(filepath.Dir(filepath.Dir(f)))
		if stream != "KV_ORCH_META" && (len(streams) == 0 || streams[len(streams)-1] != stream) {
			streams = append(streams, stream)
		}
	}
	d.files = nil
	return streams
}

// unsynced lists the files of a stream that are longer than their synced part.
func (d *disk) unsynced(t *testing.T, n *bustest.Node, stream string) []string {
	t.Helper()
	var open []string
	for _, path := range streamFiles(t, n, stream, "*.blk") {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		d.mu.Lock()
		if size, ok := d.synced[st.Ino]; !ok || size < st.Size {
			open = append(open, filepath.Base(path))
		}
		d.mu.Unlock()
	}
	return open
}

// An append is answered after a sync that began when it was written, and all that wait share one.
func TestAppendsShareASync(t *testing.T) {
	t.Parallel()
	d := newDisk()
	d.gate = make(chan struct{})
	n := bustest.NewNode(t, bus.ServerConfig{Sync: d.sync})
	t.Cleanup(func() { close(d.gate) })
	const waiting = 50
	answers := make(chan error, waiting+1)
	answer := func(_ uint64, err error) { answers <- err }
	n.Append(eventstest.NewChain().Next(t, "node"), answer)
	d.gate <- struct{}{} // the first one's sync runs
	require.NoError(t, <-answers)
	n.Append(eventstest.NewChain().Next(t, "node"), answer)
	chains := make([]*eventstest.Chain, waiting)
	for i := range chains {
		chains[i] = eventstest.NewChain()
		n.Append(chains[i].Next(t, "node"), answer)
	}
	for _, c := range chains { // the log has them, but no caller was answered
		require.Eventually(t, func() bool { return len(eventstest.History(t, n, c.Task, 1)) == 1 }, soon, often)
	}
	assert.Empty(t, answers)
	syncs := 0
	for answered := 0; answered <= waiting; {
		select {
		case d.gate <- struct{}{}:
			syncs++
		case err := <-answers:
			require.NoError(t, err)
			answered++
		}
	}
	assert.LessOrEqual(t, syncs, 2) // the one that runs, and the next one for all others
}

// Everything that is acknowledged was synced first, in its own files.
func TestEverythingIsSynced(t *testing.T) {
	t.Parallel()
	d := newDisk()
	n := bustest.NewNode(t, bus.ServerConfig{Sync: d.sync})
	d.seen()
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	assert.Contains(t, d.seen(), "ORCH_EVENTS")
	for _, data := range [][]byte{make([]byte, 300<<10), []byte("a large value")} {
		_, err := n.Put(t.Context(), data)
		require.NoError(t, err)
		assert.Contains(t, d.seen(), "OBJ_ORCH_BLOBS")
		_, err = n.Put(t.Context(), data)
		require.NoError(t, err)
		assert.Contains(t, d.seen(), "OBJ_ORCH_BLOBS", "the first call may not have been answered yet")
	}
	_, err := n.Save(t.Context(), c.Task, "point", []byte("state"))
	require.NoError(t, err)
	assert.Contains(t, d.seen(), "KV_ORCH_CHECKPOINTS")
	d.seen()
	require.NoError(t, n.Archive(t.Context(), c.Task))
	synced := d.seen() // other streams are in between if the server syncs its files at the same time
	copied := slices.Index(synced, "ORCH_ARCHIVE")
	require.GreaterOrEqual(t, copied, 0, "%v", synced)
	assert.Contains(t, synced[copied:], "ORCH_EVENTS", "the copy before the removal: %v", synced)
	for _, stream := range []string{"ORCH_EVENTS", "ORCH_ARCHIVE", "OBJ_ORCH_BLOBS", "KV_ORCH_CHECKPOINTS"} {
		assert.Empty(t, d.unsynced(t, n, stream), stream)
	}
	require.Eventually(t, func() bool { return len(d.unsynced(t, n, "KV_ORCH_META")) == 0 }, soon, often, "the high-water mark")
}

// The server creates new files, compresses full ones and removes empty ones.
func TestSyncFollowsTheFiles(t *testing.T) {
	t.Parallel()
	need.Long(t)
	d := newDisk()
	n := bustest.NewNode(t, bus.ServerConfig{Sync: d.sync})
	large := noise(2 << 20)
	blocks := func() []string { return streamFiles(t, n, "ORCH_EVENTS", "*.blk") }
	var chains []*eventstest.Chain
	for range 4 {
		var answered sync.WaitGroup
		for range 4 {
			c := eventstest.NewChain()
			r := c.Next(t, large)
			answered.Add(1)
			n.Append(r, func(seq uint64, err error) {
				defer answered.Done()
				if assert.NoError(t, err) {
					c.Accept(r, seq)
				}
			})
			chains = append(chains, c)
		}
		answered.Wait()
		assert.Empty(t, d.unsynced(t, n, "ORCH_EVENTS"))
	}
	require.Greater(t, len(blocks()), 2, "the test needs several blocks")
	for _, c := range chains {
		require.NoError(t, n.Archive(t.Context(), c.Task))
		assert.Empty(t, d.unsynced(t, n, "ORCH_EVENTS"))
	}
	assert.Less(t, len(blocks()), 3, "empty blocks are removed")
	eventstest.NewChain().Grow(t, n, 3)
	assert.Empty(t, d.unsynced(t, n, "ORCH_EVENTS"))
	requireIntact(t, n)
}

func isSyncFailure(t *testing.T, err error) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.Unavailable, e.Code)
	assert.Equal(t, bus.SyncFailed, e.Reason)
	assert.NotEmpty(t, e.Hint)
}

// A failed sync is not repeated: the kernel has discarded the pages that it could not write.
func TestFailedSyncStopsAcknowledging(t *testing.T) {
	t.Parallel()
	d := newDisk()
	n := bustest.NewNode(t, bus.ServerConfig{Sync: d.sync})
	good, bad := eventstest.NewChain(), eventstest.NewChain()
	stored := good.Grow(t, n, 3)
	d.fail.Store(true)
	_, err := eventstest.Append(n, bad.Next(t, "node"))
	isSyncFailure(t, err)
	d.fail.Store(false)
	calls := d.calls.Load()
	for range 3 {
		_, err = eventstest.Append(n, bad.Next(t, "node"))
		isSyncFailure(t, err)
	}
	_, err = n.Put(t.Context(), []byte("value"))
	isSyncFailure(t, err)
	_, err = n.Save(t.Context(), good.Task, "point", []byte("state"))
	isSyncFailure(t, err)
	isSyncFailure(t, n.Archive(t.Context(), good.Task))
	assert.Equal(t, calls, d.calls.Load(), "it is not tried again")
	for _, err := range n.Read(t.Context(), bad.Task, 1) {
		isSyncFailure(t, err)
	}
	assert.Equal(t, stored, eventstest.History(t, n, good.Task, 1), "what was acknowledged can be read")
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	require.NotNil(t, st.Refusing)
	isSyncFailure(t, st.Refusing)
	assert.FileExists(t, filepath.Join(n.Config.DataDir, "suspect.json"))

	n.Stop(t)
	n.Start(t)
	assert.NoFileExists(t, filepath.Join(n.Config.DataDir, "suspect.json"), "the start has verified everything")
	assert.Equal(t, stored, eventstest.History(t, n, good.Task, 1))
	good.Grow(t, n, 2)
	requireIntact(t, n)
}

// A node that cannot rely on the group sync lets the server sync every write, and reports it.
func TestFallback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount(t, "ramfs", "ramfs", dir, "")
	var lines strings.Builder
	d := newDisk()
	n := bustest.NewNode(t, bus.ServerConfig{
		DataDir: filepath.Join(dir, "data"), MaxStore: 64 << 20, MinFree: -1, Sync: d.sync,
		Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	eventstest.NewChain().Grow(t, n, 2)
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, bus.SyncAlways, st.Syncing)
	assert.Zero(t, d.calls.Load())
	n.Stop(t)
	assert.Contains(t, lines.String(), "syncs every write by itself")
}

func TestSyncingIsReported(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[bus.Syncing]bus.ServerConfig{
		bus.SyncGroup:    {},
		bus.SyncAlways:   {SyncAlways: true},
		bus.SyncInterval: {Durability: bus.Relaxed},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, cfg)
			var log events.Log = n
			eventstest.NewChain().Grow(t, log, 2)
			st, err := n.Status(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, st.Syncing)
		})
	}
}

// A slow disk makes appends wait, together, and nothing else.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	const slow, rounds, waiting = 50 * time.Millisecond, 5, 64
	var syncs atomic.Int64
	n := bustest.NewNode(t, bus.ServerConfig{Sync: func(f *os.File) error {
		if strings.Contains(f.Name(), "/ORCH_EVENTS/") {
			syncs.Add(1)
		}
		<-time.After(slow)
		return unix.Fdatasync(int(f.Fd()))
	}})
	chains := make([]*eventstest.Chain, waiting)
	for i := range chains {
		chains[i] = eventstest.NewChain()
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, c := range chains {
		all.Go(func() { c.Grow(t, n, rounds) })
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("%d appends in %v, %v each round, %d syncs", rounds*waiting, took, took/rounds, syncs.Load())
	assert.GreaterOrEqual(t, took, rounds*slow, "each waited for the disk")
	assert.Less(t, syncs.Load(), int64(rounds*waiting/4), "and they waited together")
	for _, c := range chains {
		assert.Len(t, eventstest.History(t, n, c.Task, 1), rounds)
	}
	requireIntact(t, n)
}
