package bus_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// noMount is the variable that permits to leave out the tests that mount a file system.
const noMount = "ORCH_TEST_NO_MOUNT"

// mount mounts a file system on a directory. It needs the permission to; without it the test fails
// unless ORCH_TEST_NO_MOUNT=1 says that this is known.
func mount(t *testing.T, source, kind, dir, options string) {
	t.Helper()
	if err := syscall.Mount(source, dir, kind, 0, options); err != nil {
		if os.Getenv(noMount) == "1" {
			t.Skip("no permission to mount, as ORCH_TEST_NO_MOUNT says")
		}
		require.NoError(t, err, "mounting needs root; set %s=1 to leave this test out", noMount)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
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
	n := startNode(t, bus.ServerConfig{DataDir: dir, MinFree: 8 * mib})
	before := eventstest.NewChain()
	stored := before.Grow(t, n, 10)
	release := occupy(t, dir, 4*mib)
	c, err := fillUntil(t, n)
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.DiskFull, e.Code)
	assert.Contains(t, e.Message, "8388608", "it says what is needed")
	assert.Equal(t, stored, eventstest.History(t, n, before.Task, 1))
	began := time.Now()
	_, err = eventstest.Append(n, c.Next(t, "node"))
	assert.Equal(t, fault.DiskFull, fault.CodeOf(err))
	assert.Less(t, time.Since(began), time.Second, "it says so at once")
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

// goesOn waits until appends are taken again, without anybody's help.
func goesOn(t *testing.T, n *node, c *eventstest.Chain) {
	t.Helper()
	require.Eventually(t, func() bool {
		r := c.Next(t, "node")
		seq, err := eventstest.Append(n, r)
		if err == nil {
			c.Accept(r, seq)
		}
		return err == nil
	}, 15*time.Second, 20*time.Millisecond)
	assert.Len(t, eventstest.History(t, n, c.Task, 1), int(c.Rev))
}

// The disk gets full behind the watermark's back: JetStream stops for good, and is brought back.
func TestDiskFullRecovery(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "48m")
	n := startNode(t, bus.ServerConfig{DataDir: dir, MinFree: 1})
	before := eventstest.NewChain()
	before.Grow(t, n, 10)
	release := occupy(t, dir, 0)
	began := time.Now()
	c, err := fillUntil(t, n)
	assert.Contains(t, []fault.Code{fault.DiskFull, fault.Unavailable}, fault.CodeOf(err), "%v", err)
	assert.Less(t, time.Since(began), 8*time.Second)
	release()
	goesOn(t, n, c)
	goesOn(t, n, before)
	requireIntact(t, n)
	n.stop(t)
	n.start(t)
	requireIntact(t, n)
	goesOn(t, n, before)
}

func TestStoreFull(t *testing.T) {
	t.Parallel()
	n := startNode(t, bus.ServerConfig{})
	n.stop(t)
	n.store.MaxBytes = 64 << 10
	n.start(t)
	c, err := fillUntil(t, n)
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.DiskFull, e.Code)
	assert.Len(t, eventstest.History(t, n, c.Task, 1), int(c.Rev), "a refused append leaves nothing")
	require.NoError(t, n.Archive(t.Context(), c.Task))
	eventstest.NewChain().Grow(t, n, 1)
}
