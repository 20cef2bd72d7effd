package bus_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// chainOf returns the commits of a task of another log, and its head.
func chainOf(t *testing.T, n int) (events.Head, [][]byte) {
	t.Helper()
	c := eventstest.NewChain()
	var head events.Head
	var all [][]byte
	for i := range n {
		r := c.Next(t, "node")
		c.Accept(r, uint64(i+1))
		head, all = r.Head, append(all, r.Data)
	}
	return head, all
}

func importAll(t *testing.T, log events.Importer, head events.Head, commits [][]byte) {
	t.Helper()
	im, err := log.Import(t.Context(), head, []byte("by ada"), false)
	require.NoError(t, err)
	for _, data := range commits {
		require.NoError(t, im.Add(data))
	}
	require.NoError(t, im.Close())
}

// TestImport: an imported history is read like an archived one, survives a restart and a check of the whole log, and can be removed.
func TestImport(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	eventstest.NewChain().Grow(t, n, 3)
	head, commits := chainOf(t, 20)
	importAll(t, n, head, commits)
	_, err := n.Import(t.Context(), head, []byte("again"), false)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	for range 2 {
		read := eventstest.History(t, n, head.Task, 1)
		require.Len(t, read, len(commits))
		for i, c := range read {
			assert.True(t, c.Archived && c.Seq == 0 && string(c.Import) == "by ada" && bytes.Equal(c.Data, commits[i]))
		}
		assert.Len(t, eventstest.History(t, n, head.Task, 15), 6)
		assert.True(t, eventstest.ArchivedHeadsOf(t, n)[head.Task].Imported)
		requireIntact(t, n)
		n.Stop(t)
		n.Start(t)
	}
	require.NoError(t, n.Remove(t.Context(), []events.TaskID{head.Task}))
	assert.Empty(t, eventstest.ArchivedHeadsOf(t, n))
	_, err = n.Import(t.Context(), head, []byte("again"), false)
	assert.Equal(t, fault.Gone, fault.CodeOf(err))
	requireIntact(t, n)
}

// TestImportInterrupted: nothing of an import that was not closed is visible or a damage, and the next one begins again.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	head, commits := chainOf(t, 3)
	im, err := n.Import(t.Context(), head, []byte("by ada"), false)
	require.NoError(t, err)
	for range 5 { // more than one message, whatever its content
		require.NoError(t, im.Add(bytes.Repeat([]byte(" "), 3<<20)))
	}
	im.Abandon()
	n.Stop(t)
	n.Start(t)
	assert.Empty(t, eventstest.History(t, n, head.Task, 1))
	assert.Empty(t, eventstest.ArchivedHeadsOf(t, n))
	importAll(t, n, head, commits)
	assert.Len(t, eventstest.History(t, n, head.Task, 1), 3)
	requireIntact(t, n)
}

func TestExportKey(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	first, err := n.ExportKey(t.Context())
	require.NoError(t, err)
	n.Stop(t)
	n.Start(t)
	second, err := n.ExportKey(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first, second)
	requireIntact(t, n)
}

// TestRestoreARemovedTask: a task that was removed can be imported again on purpose, also after an interruption, survives a restart and a
// check of the whole log, and can be removed again.
func TestRestoreARemovedTask(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	eventstest.NewChain().Grow(t, n, 2)
	chain := eventstest.NewChain()
	var head events.Head
	var commits [][]byte
	for range 5 {
		r := chain.Next(t, "node")
		seq, err := eventstest.Append(n, r)
		require.NoError(t, err)
		chain.Accept(r, seq)
		head, commits = r.Head, append(commits, r.Data)
	}
	require.NoError(t, n.Archive(t.Context(), head.Task))
	require.NoError(t, n.Remove(t.Context(), []events.TaskID{head.Task}))
	_, err := n.Import(t.Context(), head, []byte("again"), false)
	require.Equal(t, fault.Gone, fault.CodeOf(err))

	im, err := n.Import(t.Context(), head, []byte("by ada"), true)
	require.NoError(t, err)
	for range 5 { // more than one message
		require.NoError(t, im.Add(bytes.Repeat([]byte(" "), 3<<20)))
	}
	im.Abandon()
	n.Stop(t)
	n.Start(t)
	for _, err := range n.Read(t.Context(), head.Task, 1) {
		require.Equal(t, fault.Gone, fault.CodeOf(err), "half of a task is not there")
	}
	for range 2 {
		im, err = n.Import(t.Context(), head, []byte("by ada"), true)
		require.NoError(t, err)
		for _, data := range commits {
			require.NoError(t, im.Add(data))
		}
		require.NoError(t, im.Close())
		for range 2 {
			read := eventstest.History(t, n, head.Task, 1)
			require.Len(t, read, len(commits))
			for i, c := range read {
				assert.True(t, c.Archived && string(c.Import) == "by ada" && bytes.Equal(c.Data, commits[i]))
			}
			assert.True(t, eventstest.ArchivedHeadsOf(t, n)[head.Task].Imported)
			_, err = n.Import(t.Context(), head, []byte("again"), true)
			assert.Equal(t, fault.Conflict, fault.CodeOf(err))
			requireIntact(t, n)
			n.Stop(t)
			n.Start(t)
		}
		require.NoError(t, n.Remove(t.Context(), []events.TaskID{head.Task}))
		requireIntact(t, n)
	}
}
