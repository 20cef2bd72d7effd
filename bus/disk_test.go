package bus_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
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
	"github.com/orch-dev/orch/test/need"
)

// mount mounts a file system on a directory. Without the permission to the test is left out.
func mount(t *testing.T, source, kind, dir, options string) {
	t.Helper()
	err := syscall.Mount(source, dir, kind, 0, options)
	need.That(t, "mount", !errors.Is(err, syscall.EPERM))
	require.NoError(t, err)
	t.Cleanup(func() { unmountFree(t, dir) })
}

// smallDisk is a file system of so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, "tmpfs", "tmpfs", dir, "size="+size+",mode=0700")
	return dir
}

// fillUntil appends to one task until an append is refused, and returns its chain and the refusal.
func fillUntil(t *testing.T, log events.Log) (*eventstest.Chain, error) {
	t.Helper()
	c := eventstest.NewChain()
	for range 100_000 {
		r := c.Next(t, "node")
		seq, err := eventstest.Append(log, r)
		if err != nil {
			return c, err
		}
		c.Accept(r, seq)
	}
	require.FailNow(t, "the disk never got full")
	return nil, nil
}

// occupy fills the disk with a file, down to so many free bytes.
func occupy(t *testing.T, dir string, leave int64) (release func()) {
	t.Helper()
	var st syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &st))
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for free := int64(st.Bavail) * st.Bsize; free > leave; free -= int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			break
		}
	}
	return func() { require.NoError(t, os.Remove(path)) }
}

func TestDiskBelowWatermark(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	dir := smallDisk(t, "64m")
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir, MinFree: 8 * mib})
	before := eventstest.NewChain()
	stored := before.Grow(t, n, 10)
	release := occupy(t, dir, 4*mib)
	c, err := fillUntil(t, n)
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.DiskFull, e.Code)
	assert.Contains(t, e.Message, "8388608", "it says what is needed")
	assert.Equal(t, stored, eventstest.History(t, n, before.Task, 1))
	next := c.Next(t, "node")
	require.Eventually(t, func() bool { // a slow machine may be slow once, but not each time
		began := time.Now()
		_, err := eventstest.Append(n, next)
		return fault.Has(err, fault.DiskFull) && time.Since(began) < time.Second
	}, time.Minute, time.Millisecond, "it says so at once")
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	require.NotNil(t, st.Refusing)
	assert.Equal(t, fault.DiskFull, st.Refusing.Code)
	_, err = n.Put(t.Context(), []byte("large"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	release()
	goesOn(t, n, c)
	requireIntact(t, n)
}

// goesOn waits until appends succeed again, without intervention.
func goesOn(t *testing.T, n *bustest.Node, c *eventstest.Chain) {
	t.Helper()
	require.Eventually(t, func() bool {
		r := c.Next(t, "node")
		seq, err := eventstest.Append(n, r)
		if err == nil {
			c.Accept(r, seq)
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	assert.Len(t, eventstest.History(t, n, c.Task, 1), int(c.Rev))
}

// The disk fills up although the watermark is observed: JetStream stops permanently, and is restarted. On ext4
// the space for written data is reserved, so that the sync that follows succeeds.
func TestDiskFullRecovery(t *testing.T) {
	t.Parallel()
	t.Run("tmpfs", func(t *testing.T) {
		t.Parallel()
		fullAndBack(t, smallDisk(t, "48m"))
	})
	t.Run("ext4", func(t *testing.T) {
		t.Parallel()
		fullAndBack(t, newMachine(t, 64<<20).root)
	})
}

func fullAndBack(t *testing.T, root string) {
	t.Helper()
	const mib = 1 << 20
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: filepath.Join(root, "data"), MinFree: mib})
	before := eventstest.NewChain()
	before.Grow(t, n, 10)
	release := occupy(t, root, 3*mib)
	chains, refused := burst(t, n, 16, 700<<10) // far more than there is space for, before the next measurement
	release()
	began := time.Now()
	goesOn(t, n, before)
	t.Logf("%d of %d refused, the last after %v; back %v after there was space", refused.count, len(chains), refused.slowest, time.Since(began))
	assert.Positive(t, refused.count)
	assert.Less(t, refused.slowest, 30*time.Second)
	for _, c := range chains {
		goesOn(t, n, c)
	}
	requireIntact(t, n)
	n.Stop(t)
	n.Start(t)
	requireIntact(t, n)
	goesOn(t, n, before)
}

// refusals are the refused appends of a burst that filled the disk.
type refusals struct {
	count   int
	slowest time.Duration
}

// noise returns a text in which nothing repeats, so that it takes its space also in the log.
func noise(size int) string {
	b := make([]byte, size*3/4)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// burst appends the first commit of so many tasks at once.
func burst(t *testing.T, log events.Log, tasks, size int) ([]*eventstest.Chain, refusals) {
	t.Helper()
	chains, errs := make([]*eventstest.Chain, tasks), make([]error, tasks)
	var r refusals
	var mu sync.Mutex
	var answered sync.WaitGroup
	answered.Add(tasks)
	began := time.Now()
	for i := range chains {
		chains[i] = eventstest.NewChain()
		record := chains[i].Next(t, noise(size))
		log.Append(record, func(seq uint64, err error) {
			defer answered.Done()
			mu.Lock()
			defer mu.Unlock()
			if errs[i] = err; err == nil {
				chains[i].Accept(record, seq)
				return
			}
			r.count++
			r.slowest = max(r.slowest, time.Since(began))
		})
	}
	answered.Wait()
	for _, err := range errs {
		assert.Contains(t, []fault.Code{"", fault.DiskFull}, fault.CodeOf(err), "%v", err)
	}
	return chains, r
}

// The configured size is used up: appends are refused, everything else works, also after a restart, until
// the size is raised.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	const most = 256 << 10
	n := bustest.NewNode(t, bus.ServerConfig{MaxStore: most})
	c, err := fillUntil(t, n)
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.DiskFull, e.Code)
	assert.Contains(t, e.Hint, "--max-store")
	assert.Len(t, eventstest.History(t, n, c.Task, 1), int(c.Rev), "a refused append leaves nothing")
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, st.Used, int64(most))
	assert.Less(t, st.Used, int64(most+most/8), "it is not passed by much")
	assert.Equal(t, fault.DiskFull, fault.CodeOf(st.Refusing))
	assert.False(t, st.Since.IsZero())
	_, err = n.Put(t.Context(), []byte("large"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	n.Stop(t)
	n.Start(t)
	_, err = eventstest.Append(n, c.Next(t, "node"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	require.NoError(t, n.Archive(t.Context(), c.Task), "the archive does not grow the store for long")
	requireIntact(t, n)
	n.Stop(t)
	n.Config.MaxStore = 2 * most
	n.Start(t)
	eventstest.NewChain().Grow(t, n, 1)
	requireIntact(t, n)
}

// A stream of an earlier version had a size limit, which is removed.
func TestFormerBoundOfLog(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = 64 << 10
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = fillUntil(t, n)
	require.Equal(t, fault.DiskFull, fault.CodeOf(err))
	n.Stop(t)
	n.Start(t)
	eventstest.NewChain().Grow(t, n, 100)
	requireIntact(t, n)
}

// Below the watermark a node archives, which frees space, and advances the high-water mark.
func TestDiskUpkeepBelowWatermark(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	dir := smallDisk(t, "64m")
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir, MinFree: 16 * mib})
	done := eventstest.NewChain()
	stored := done.Grow(t, n, 20)
	release := occupy(t, dir, 12*mib)
	defer release()
	_, err := n.Status(t.Context()) // it measures the disk
	require.NoError(t, err)
	_, err = eventstest.Append(n, done.Next(t, "node"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	require.NoError(t, n.Archive(t.Context(), done.Task))
	assert.Equal(t, archived(stored), eventstest.History(t, n, done.Task, 1))
	n.Stop(t)
	n.Start(t)
	assert.Equal(t, archived(stored), eventstest.History(t, n, done.Task, 1))
	requireIntact(t, n)
}

func archived(history []events.Stored) []events.Stored {
	moved := slices.Clone(history)
	for i := range moved {
		moved[i].Archived = true
	}
	return moved
}

// Another program has filled the disk to the last block: a node starts, can be read, refuses appends, and accepts
// them again when there is space.
func TestDiskFullStart(t *testing.T) {
	t.Parallel()
	t.Run("tmpfs", func(t *testing.T) {
		t.Parallel()
		startsFull(t, smallDisk(t, "64m"))
	})
	t.Run("ext4", func(t *testing.T) {
		t.Parallel()
		startsFull(t, newMachine(t, 64<<20).root)
	})
}

func startsFull(t *testing.T, root string) {
	t.Helper()
	const mib = 1 << 20
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: filepath.Join(root, "data"), MinFree: 8 * mib})
	c := eventstest.NewChain()
	stored := c.Grow(t, n, 10)
	n.Stop(t)
	release := occupy(t, root, 0)
	for range 2 { // the files written by the first start do not prevent the second one
		n.Start(t)
		assert.Equal(t, stored, eventstest.History(t, n, c.Task, 1))
		_, err := eventstest.Append(n, c.Next(t, "node"))
		assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
		requireIntact(t, n)
		n.Stop(t)
	}
	n.Start(t)
	release()
	goesOn(t, n, c)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(n.Config.DataDir, "reserve"))
		return err == nil
	}, time.Minute, 10*time.Millisecond, "space is set aside again")
	requireIntact(t, n)
}

// An external server with limits of its own: its refusals are reported, and since when.
func TestExternalServerFull(t *testing.T) {
	t.Parallel()
	ns := externalServer(t, 128<<10)
	store := externalStore(t, ns)
	c, err := fillUntil(t, store)
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	require.NoError(t, store.Close(t.Context()))
	store = externalStore(t, ns)
	assert.Len(t, eventstest.History(t, store, c.Task, 1), int(c.Rev))
	_, err = eventstest.Append(store, c.Next(t, "node"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	st, err := store.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, fault.DiskFull, fault.CodeOf(st.Refusing))
	assert.False(t, st.Since.IsZero())
}
