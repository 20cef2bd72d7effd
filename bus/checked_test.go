package bus_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// checkedStore is a stopped store with more blocks than a start reads without listing them, all of them listed.
func checkedStore(t *testing.T) (n *bustest.Node, oldest string) {
	t.Helper()
	n = bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	c := eventstest.NewChain()
	actor := strings.Repeat("a", 500<<10)
	for range 180 {
		r := c.Next(t, actor)
		seq, err := eventstest.Append(n, r)
		require.NoError(t, err)
		c.Accept(r, seq)
	}
	n.Stop(t)
	<-time.After(1100 * time.Millisecond) // a block that was written just now is not listed
	n.Start(t)
	n.Stop(t)
	require.FileExists(t, filepath.Join(n.Config.DataDir, "checked.json"))
	return n, filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "ORCH_EVENTS", "msgs", "1.blk")
}

// flipInPlace changes one bit of a file, and sets the time of its last change to what it was.
func flipInPlace(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, 5000)
	require.NoError(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, 5000)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// A block that was read once is read again when its file has changed, even if the file seems as old as it was.
func TestListedBlockThatChanged(t *testing.T) {
	t.Parallel()
	n, oldest := checkedStore(t)
	flipInPlace(t, oldest)
	err := n.Serve(t)
	assert.True(t, fault.Has(err, fault.DataLoss), "%v", err)
}

// A list that was changed is not believed, even if it describes the file as it is.
func TestForgedListOfBlocks(t *testing.T) {
	t.Parallel()
	n, oldest := checkedStore(t)
	list := filepath.Join(n.Config.DataDir, "checked.json")
	data, err := os.ReadFile(list)
	require.NoError(t, err)
	before := changed(t, oldest)
	flipInPlace(t, oldest)
	require.Contains(t, string(data), before)
	require.NoError(t, os.WriteFile(list, []byte(strings.ReplaceAll(string(data), before, changed(t, oldest))), 0o600))
	<-time.After(1100 * time.Millisecond)
	err = n.Serve(t)
	assert.True(t, fault.Has(err, fault.DataLoss), "%v", err)
}

// changed returns how the list describes when a file has changed.
func changed(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return `"changed":` + strconv.FormatInt(st.Ctim.Nano(), 10)
}

// A store starts although the list cannot be written, because a folder lies in its place.
func TestStartWithoutListOfBlocks(t *testing.T) {
	t.Parallel()
	n, _ := checkedStore(t)
	list := filepath.Join(n.Config.DataDir, "checked.json")
	require.NoError(t, os.Remove(list))
	require.NoError(t, os.MkdirAll(filepath.Join(list, "taken"), 0o700))
	n.Start(t)
	n.Stop(t)
}
