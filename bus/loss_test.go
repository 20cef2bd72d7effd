package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// filled returns a stopped node with a few histories, one of them archived, and its last chain.
func filled(t *testing.T) (*bustest.Node, *eventstest.Chain) {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{})
	old := eventstest.NewChain()
	old.Grow(t, n, 3)
	require.NoError(t, n.Archive(t.Context(), old.Task))
	for range 20 {
		eventstest.NewChain().Grow(t, n, 2)
	}
	last := eventstest.NewChain()
	last.Grow(t, n, 2)
	_, err := n.Put(t.Context(), []byte("a large value"))
	require.NoError(t, err)
	requireIntact(t, n)
	n.Stop(t)
	return n, last
}

func streamFiles(t *testing.T, n *bustest.Node, stream, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", stream, "msgs", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	sort.Strings(files)
	return files
}

// flip changes one bit inside of an occurrence of a text in a file: the first, the last or one between.
func flip(t *testing.T, path, text string, which float64) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var at []int
	for i := range data {
		if bytes.HasPrefix(data[i:], []byte(text)) {
			at = append(at, i)
		}
	}
	require.NotEmpty(t, at, "%s holds %q", path, text)
	data[at[int(which*float64(len(at)-1))]+1] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// event is where the compressed events of a commit begin, after its headers.
const event = "\n\x01"

// Every damage to the files of a stopped node is detected before a server opens them, and reported.
func TestDamageIsDetected(t *testing.T) {
	t.Parallel()
	const live, blobs = "ORCH_EVENTS", "OBJ_ORCH_BLOBS"
	removeIndex := func(t *testing.T, n *bustest.Node) {
		t.Helper()
		for _, f := range streamFiles(t, n, live, "index.db") {
			require.NoError(t, os.Remove(f))
		}
	}
	cut := func(t *testing.T, n *bustest.Node, keep float64) {
		t.Helper()
		f := streamFiles(t, n, live, "*.blk")[0]
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(f, int64(keep*float64(info.Size()))))
	}
	bit := func(stream, text string, which float64) func(*testing.T, *bustest.Node) {
		return func(t *testing.T, n *bustest.Node) {
			t.Helper()
			flip(t, streamFiles(t, n, stream, "*.blk")[0], text, which)
		}
	}
	for name, damage := range map[string]func(t *testing.T, n *bustest.Node){
		"bit at the start":  bit(live, event, 0),
		"bit in the middle": bit(live, event, 0.5),
		"bit at the end":    bit(live, event, 1),
		"bit in a header":   bit(live, "IN_PROGRESS", 0.5),
		"bit in a subject":  bit(live, "orch.ev", 0.5),
		"bit in a value":    bit(blobs, "a large value", 0),
		"bit in its name":   bit(blobs, "sha256-", 0),
		"bit, no index": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			bit(live, event, 0.5)(t, n)
			removeIndex(t, n)
		},
		"truncated":           func(t *testing.T, n *bustest.Node) { t.Helper(); cut(t, n, 0.5) },
		"truncated, no index": func(t *testing.T, n *bustest.Node) { t.Helper(); cut(t, n, 0.5); removeIndex(t, n) },
		"block gone": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			require.NoError(t, os.Remove(streamFiles(t, n, live, "*.blk")[0]))
		},
		"block and index gone": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			require.NoError(t, os.Remove(streamFiles(t, n, live, "*.blk")[0]))
			removeIndex(t, n)
		},
		"stream gone": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(streamFiles(t, n, live, "*.blk")[0]))))
		},
		"whole store gone": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Join(n.Config.DataDir, "nats")))
		},
		"mark damaged": func(t *testing.T, n *bustest.Node) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(n.Config.DataDir, "highwater.json"), []byte("{"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := filled(t)
			damage(t, n)
			err := n.Serve(t)
			require.ErrorIs(t, err, &fault.Error{Code: fault.DataLoss})
			report, err := bus.Inspect(t.Context(), n.Config.DataDir)
			require.NoError(t, err)
			require.NotEmpty(t, report.Problems)
			assert.NotEmpty(t, report.Problems[0].Stream+report.Problems[0].File)
		})
	}
}

// What gets damaged while a server runs is named by Verify, which then refuses appends.
func TestDamageWhileRunning(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	require.NoError(t, n.Serve(t))
	n.OpenStore(t)
	flip(t, streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0], event, 0.5)
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, report.Problems)
	assert.Equal(t, "ORCH_EVENTS", report.Problems[0].Stream)
	assert.NotZero(t, report.Problems[0].Seq)
	_, err = eventstest.Append(n, last.Next(t, "node"))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
}

func TestIndexMayGo(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	for _, f := range streamFiles(t, n, "ORCH_EVENTS", "index.db") {
		require.NoError(t, os.Remove(f))
	}
	n.Start(t)
	requireIntact(t, n)
	last.Grow(t, n, 1)
}

// After a loss that the files do not show the log is read-only and reports the lost position.
func TestNoAppendAfterLoss(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	n.Start(t)
	deleteMessage(t, n, "ORCH_EVENTS", 45)
	n.Stop(t)
	n.Start(t)
	for _, r := range []events.Record{last.Next(t, "node"), eventstest.NewChain().Next(t, "node")} {
		_, err := eventstest.Append(n, r)
		var e *fault.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, fault.DataLoss, e.Code)
		assert.Contains(t, e.Message, "position 45")
		assert.NotEmpty(t, e.Hint)
	}
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	require.NotNil(t, st.Refusing)
	assert.Equal(t, fault.DataLoss, st.Refusing.Code)
	heads := eventstest.HeadsOf(t, n)
	assert.NotEmpty(t, heads, "what is left can be read")
	for task := range heads {
		assert.NotEmpty(t, eventstest.History(t, n, task, 1))
	}
	n.Stop(t)
	n.Start(t)
	_, err = eventstest.Append(n, eventstest.NewChain().Next(t, "node"))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err), "a restart does not forget the loss")
}

// If the log is lost and only the mark in the store records it, blobs and checkpoints are refused too:
// nothing would make them durable.
func TestNothingIsStoredWithoutTheLog(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	require.NoError(t, os.Remove(filepath.Join(n.Config.DataDir, "highwater.json")))
	require.NoError(t, os.RemoveAll(filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "ORCH_EVENTS")))
	n.Start(t)
	_, err := n.Put(t.Context(), []byte("a value"))
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	_, err = n.Save(t.Context(), last.Task, "CP_1", []byte("{}"))
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	_, err = eventstest.Append(n, last.Next(t, "node"))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
}

// A reader gets an error where a history cannot be read, also from a server elsewhere, whose files
// are not checked.
func TestUnreadableEnd(t *testing.T) {
	t.Parallel()
	n, last := filled(t)
	flip(t, streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0], event, 1)
	ns, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: filepath.Join(n.Config.DataDir, "nats"), Port: -1, NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 50,
	})
	require.NoError(t, err)
	ns.Start()
	defer func() { ns.Shutdown(); ns.WaitForShutdown() }()
	require.True(t, ns.ReadyForConnections(10*time.Second))
	conn, err := bus.Dial(t.Context(), bus.DialConfig{URL: ns.ClientURL()})
	require.NoError(t, err)
	defer conn.Close()
	store, err := conn.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(context.WithoutCancel(t.Context()))) }()
	_, err = eventstest.Append(store, last.Next(t, "node"))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
	var got []events.Stored
	var failure error
	for c, err := range store.Read(t.Context(), last.Task, 1) {
		if failure = err; err == nil {
			got = append(got, c)
		}
	}
	assert.Len(t, got, 1)
	assert.Equal(t, fault.DataLoss, fault.CodeOf(failure))
}

// A commit that was changed through the front door, by another client, breaks the chain.
func TestForgedHistory(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	c.Grow(t, n, 2)
	forged := eventstest.NewChain()
	forged.Task, forged.Rev = c.Task, 1
	r := forged.Next(t, "mallory")
	r.After = c.After
	r.Rev = 3
	_, err := eventstest.Append(n, r)
	require.NoError(t, err, "the log does not read what it stores")
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.NotZero(t, report.Found)
	assert.Equal(t, c.Task, report.Problems[0].Task)
	assert.Equal(t, uint64(3), report.Problems[0].Seq)
}

// deleteMessage deletes a message through the front door.
func deleteMessage(t *testing.T, n *bustest.Node, stream string, seq uint64) {
	t.Helper()
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), seq))
}

func TestDeletedMessageIsFound(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	all := c.Grow(t, n, 3)
	deleteMessage(t, n, "ORCH_EVENTS", all[1].Seq)
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	seqs := map[uint64]bool{}
	for _, p := range report.Problems {
		seqs[p.Seq] = true
	}
	assert.True(t, seqs[all[1].Seq], "the position is named")
	var last error
	for _, err := range n.Read(t.Context(), c.Task, 1) {
		last = err
	}
	assert.Equal(t, fault.DataLoss, fault.CodeOf(last), "a reader is not shown a history with a hole")
}

// The mark follows the log while it grows, not only at a clean stop.
func TestMarkIsMoved(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	eventstest.NewChain().Grow(t, n, 3)
	path := filepath.Join(n.Config.DataDir, "highwater.json")
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(path)
		return err == nil && assert.ObjectsAreEqual(uint64(3), markSeq(data))
	}, time.Minute, 10*time.Millisecond)
}

// Archived and expired histories are no loss.
func TestExpiredArchive(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	n.Stop(t)
	n.StoreConfig.ArchiveAge = time.Second
	n.Start(t)
	c := eventstest.NewChain()
	c.Grow(t, n, 2)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	require.Eventually(t, func() bool {
		return len(eventstest.History(t, n, c.Task, 1)) == 0
	}, time.Minute, 50*time.Millisecond)
	requireIntact(t, n)
	n.Stop(t)
	n.Start(t)
	eventstest.NewChain().Grow(t, n, 1)
	report, err := n.Verify(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found)
	assert.Equal(t, uint64(2), report.Expired)
}

func markSeq(data []byte) uint64 {
	var m struct {
		Seq uint64 `json:"seq"`
	}
	if json.Unmarshal(data, &m) != nil {
		return 0
	}
	return m.Seq
}

// A history that another client has deleted from the archive is reported by the check, and
// reading it fails without a delay.
func TestDeletedArchive(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	deleteMessage(t, n, "ORCH_ARCHIVE", 1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for _, err := range n.Read(ctx, c.Task, 1) {
		require.NoError(t, err)
	}
	report, err := n.Verify(ctx, nil)
	require.NoError(t, err)
	assert.Equal(t, 3, report.Found, "each of its positions is named")
}
