package bus_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// oldDir returns a data directory whose store does not begin with the newest version.
func oldDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	old, err := bus.OldVersion()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.json"), old, 0o600))
	return dir
}

// rawLog returns the log of a node as NATS has it.
func rawLog(t *testing.T, n *bustest.Node) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(bustest.Dial(t, n, "").NATS())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	return stream
}

// stored returns the first bytes of the messages of the log.
func stored(t *testing.T, n *bustest.Node) (first []byte) {
	t.Helper()
	stream := rawLog(t, n)
	for seq := range stream.CachedInfo().State.LastSeq {
		m, err := stream.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		first = append(first, m.Data[0])
	}
	return first
}

// requireHistory checks what a log has of a task.
func requireHistory(t *testing.T, log events.Log, task events.TaskID, want []events.Stored) {
	t.Helper()
	got := eventstest.History(t, log, task, 1)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, string(want[i].Data), string(got[i].Data))
	}
}

// A store of an older version has plain commits until somebody raises its version. Then it has both kinds, and everything reads both.
func TestCommitsOfBothKinds(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: oldDir(t)})
	open, done := eventstest.NewChain(), eventstest.NewChain()
	history := map[events.TaskID][]events.Stored{}
	grow := func(c *eventstest.Chain, count int) {
		history[c.Task] = append(history[c.Task], c.Grow(t, n, count)...)
	}
	grow(open, 2)
	grow(done, 2)
	assert.Equal(t, []byte("{{{{"), stored(t, n))
	require.NoError(t, n.RaiseVersion(t.Context(), bus.StoreVersion))
	grow(open, 2)
	grow(done, 1)
	assert.Equal(t, []byte("{{{{\x01\x01\x01"), stored(t, n))
	check := func(log *bustest.Node) {
		t.Helper()
		requireIntact(t, log)
		for task, want := range history {
			requireHistory(t, log, task, want)
		}
	}
	check(n)
	replicated := bustest.Dial(t, n, "")
	replicated.PretendReplicas()
	s, err := replicated.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	requireHistory(t, s, open.Task, history[open.Task])
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, n.Archive(t.Context(), done.Task))
	check(n)
	n.Stop(t)
	n.Start(t) // it compares the newest commit with the high-water mark
	grow(open, 1)
	check(n)
	file, dir := filepath.Join(t.TempDir(), "a.backup"), filepath.Join(t.TempDir(), "data")
	m, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	assert.Equal(t, 3, m.Store, "older programs refuse it")
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: dir})
	require.NoError(t, err)
	v, err := bus.ReadVersion(dir)
	require.NoError(t, err)
	assert.Equal(t, 3, v.Version)
	check(bustest.NewNode(t, bus.ServerConfig{DataDir: dir}))
}

// A new store has compressed commits, and a version that programs refuse that cannot read them.
func TestANewStoreCompresses(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	v, err := n.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, v.Version)
	eventstest.NewChain().Grow(t, n, 2)
	assert.Equal(t, []byte{1, 1}, stored(t, n))
}

// A store that is restored has the version of its backup, so that programs that know no newer one can still open it.
func TestARestoredStoreIsNotNew(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: oldDir(t)})
	eventstest.NewChain().Grow(t, n, 2)
	file, dir := filepath.Join(t.TempDir(), "a.backup"), filepath.Join(t.TempDir(), "data")
	m, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	assert.Equal(t, 1, m.Store)
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: dir})
	require.NoError(t, err)
	restored := bustest.NewNode(t, bus.ServerConfig{DataDir: dir})
	eventstest.NewChain().Grow(t, restored, 1)
	assert.Equal(t, []byte("{{{"), stored(t, restored))
}

// A compressed commit that cannot be read is a loss of its task, not of the others.
func TestADamagedBlockIsOneLoss(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	damaged, whole := eventstest.NewChain(), eventstest.NewChain()
	damaged.Grow(t, n, 1)
	history := whole.Grow(t, n, 2)
	raw, err := rawLog(t, n).GetMsg(t.Context(), 1)
	require.NoError(t, err)
	js, err := jetstream.New(dialAppender(t, n).NATS())
	require.NoError(t, err)
	head := strings.Replace(raw.Header.Get("Orch"), "1 ", "2 ", 1)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: raw.Subject, Header: nats.Header{"Orch": {head}}, Data: bytes.Repeat([]byte{1}, 100)})
	require.NoError(t, err)
	history = append(history, whole.Grow(t, n, 1)...)
	requireHistory(t, n, whole.Task, history)
	assert.Len(t, eventstest.HeadsOf(t, n), 2)
	count := 0
	for _, err = range n.Read(t.Context(), damaged.Task, 1) {
		count++
	}
	assert.Equal(t, 2, count)
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
	require.ErrorContains(t, err, "the commit at position 4 of task "+string(damaged.Task))
	for _, err = range n.Scan(t.Context(), 1) {
	}
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
	require.Error(t, n.Archive(t.Context(), damaged.Task))
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Found)
	assert.Equal(t, bus.Problem{Seq: 4, Task: damaged.Task, What: report.Problems[0].What}, report.Problems[0])
	assert.Contains(t, report.Problems[0].What, "cannot be read")
}

// A store on an external server begins with the newest version, too, unless it is older, also if an older node is the first.
func TestAnExternalStoreBegins(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]bool{"new": false, "an older node was first": true} {
		n := bustest.NewNode(t, bus.ServerConfig{DataDir: oldDir(t)})
		js, err := jetstream.New(bustest.Dial(t, n, "").NATS())
		require.NoError(t, err)
		require.NoError(t, n.Close(context.WithoutCancel(t.Context())), name)
		require.NoError(t, js.DeleteStream(t.Context(), "ORCH_EVENTS"), name)
		require.NoError(t, js.DeleteStream(t.Context(), "KV_ORCH_META"), name)
		want := 3
		if older {
			want = 1
			meta, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ORCH_META", Description: "high-water mark of the log", History: 1})
			require.NoError(t, err, name)
			old, err := bus.OldVersion()
			require.NoError(t, err, name)
			_, err = meta.Put(t.Context(), "version", old)
			require.NoError(t, err, name)
		}
		s, err := dialAppender(t, n).OpenStore(t.Context(), bus.StoreConfig{})
		require.NoError(t, err, name)
		v, err := s.Version(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, want, v.Version, name)
		eventstest.NewChain().Grow(t, s, 1)
		assert.Equal(t, want == 3, stored(t, n)[0] == 1, name)
		require.NoError(t, s.Close(t.Context()), name)
	}
}
