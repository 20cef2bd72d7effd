package orchestrator_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// memorySpool is a spool in memory. Like a file, it may be read while it grows.
type memorySpool struct {
	mu   sync.Mutex
	data []byte
}

func (s *memorySpool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = append(s.data, p...)
	return len(p), nil
}

func (s *memorySpool) ReadAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.NewReader(s.data).ReadAt(p, at)
}

func (s *memorySpool) Close() error { return nil }

func exporting(cfg *orchestrator.Config) {
	cfg.Exports = orchestrator.Exports{
		Version: "test",
		Key: func(context.Context) (ed25519.PrivateKey, error) {
			return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil
		},
		Spool: func() (orchestrator.Spool, error) { return &memorySpool{}, nil },
	}
}

// export returns the export file of tasks.
func (n *node) export(ids ...events.TaskID) []byte {
	n.t.Helper()
	var file []byte
	for r := (api.ExportRequest{IDs: ids, Wait: time.Second}); ; {
		reply, err := n.Export(n.ctx(), r)
		require.NoError(n.t, err)
		file = append(file, reply.Data...)
		if reply.Done {
			return file
		}
		r = api.ExportRequest{File: reply.File, Offset: int64(len(file)), Wait: time.Second}
	}
}

// importFile imports a file in small parts, each sent twice.
func (n *node) importFile(name string, file []byte) (reply api.ImportReply, err error) {
	const part = 300
	for at := 0; at < len(file); at += part {
		r := api.ImportRequest{File: name, Offset: int64(at), Size: int64(len(file)), Data: file[at:min(at+part, len(file))], Actor: "user:ada", Wait: time.Minute}
		for range 2 {
			if reply, err = n.Import(n.ctx(), r); err != nil {
				return reply, err
			}
		}
	}
	return reply, nil
}

const importedPlan = `
orch: v1
name: waits
steps:
  - {id: a, tool: READ, with: {text: hello}}
  - {id: s, needs: [a], wait: {signal: go}}
`

// TestImportOpenTask: a task that has not ended is imported as it was. It is shown, and nothing of it runs or changes, not even after
// a restart.
func TestImportOpenTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := start(t, memlog.New(memlog.Config{}), exporting)
		id := from.submit(importedPlan)
		file := from.export(id)
		log := memlog.New(memlog.Config{})
		n := start(t, log, exporting)
		reply, err := n.importFile("a", file)
		require.NoError(t, err)
		require.True(t, reply.Done)
		assert.False(t, reply.Tasks[0].Existing)
		again, err := n.importFile("b", file)
		require.NoError(t, err)
		assert.True(t, again.Tasks[0].Existing)
		checkImported(t, n, id)
		n.stop()
		n = start(t, log, exporting)
		synctest.Wait()
		checkImported(t, n, id)
		first, err := export.Verify(bytes.NewReader(file), export.Visitor{})
		require.NoError(t, err)
		second, err := export.Verify(bytes.NewReader(n.export(id)), export.Visitor{})
		require.NoError(t, err)
		origin := second.Tasks[0].Imported
		require.NotNil(t, origin, "an imported task can be exported again, and says so")
		assert.Equal(t, export.Origin{Key: first.Key, SHA256: first.SHA256, At: n.get(id).Imported.At}, *origin)
		second.Tasks[0].Imported = nil
		assert.Equal(t, first.Tasks, second.Tasks)
	})
}

func checkImported(t *testing.T, n *node, id events.TaskID) {
	t.Helper()
	v := n.get(id)
	require.NotNil(t, v.Imported)
	assert.Equal(t, "user:ada", v.Imported.By)
	assert.True(t, v.Archived)
	assert.False(t, v.State.Terminal())
	list, err := n.List(n.ctx(), api.ListRequest{})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 1)
	assert.True(t, list.Tasks[0].Imported)
	queue, err := n.Queue(n.ctx(), api.QueueRequest{IncludeAssigned: true})
	require.NoError(t, err)
	assert.Empty(t, queue.Tasks)
	assert.Zero(t, queue.Stats.Total)
	assert.Empty(t, n.poll("w", 5).Calls)
	for name, err := range map[string]error{
		"cancel": n.cancel(id), "signal": second(n.Signal(n.ctx(), api.SignalRequest{ID: id, Name: "go"})),
		"retry":   second(n.Retry(n.ctx(), api.RetryRequest{ID: id, From: "a"})),
		"redrive": second(n.Redrive(n.ctx(), api.RedriveRequest{ID: id})), "files": second(n.Workplace(n.ctx(), id)),
	} {
		assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err), name)
		assert.Equal(t, "IMPORTED", fault.From(err).Reason, name)
	}
	began := time.Now()
	_, err = n.Result(n.ctx(), api.ResultRequest{ID: id, Wait: time.Minute})
	assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err), "it never ends")
	assert.Equal(t, "IMPORTED", fault.From(err).Reason)
	result, err := n.Result(n.ctx(), api.ResultRequest{ID: id})
	require.NoError(t, err)
	assert.False(t, result.Ended)
	watch, err := n.Watch(n.ctx(), api.WatchRequest{ID: id, Wait: time.Minute})
	require.NoError(t, err)
	assert.True(t, watch.Ended, "no commit follows")
	assert.Len(t, watch.Commits, int(v.Rev))
	watch, err = n.Watch(n.ctx(), api.WatchRequest{ID: id, After: v.Rev, Wait: time.Minute})
	require.NoError(t, err)
	assert.True(t, watch.Ended)
	assert.Zero(t, time.Since(began), "nobody waits")
	replay, err := n.Replay(n.ctx(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	assert.True(t, *replay.Live)
	explain, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, "imported", explain.Causes[0].Kind)
}

func second[T any](_ T, err error) error { return err }

// TestImportConflict: a file with another history of one task imports nothing of all its tasks.
func TestImportConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := start(t, memlog.New(memlog.Config{}), exporting)
		one, two := from.submit(importedPlan), from.submit(waitingPlan)
		n := start(t, memlog.New(memlog.Config{}), exporting)
		_, err := n.importFile("a", from.export(one))
		require.NoError(t, err)
		require.NoError(t, from.cancel(one))
		longer := from.export(two, one)
		_, err = n.importFile("b", longer)
		assert.Equal(t, fault.Conflict, fault.CodeOf(err))
		_, err = n.Get(n.ctx(), api.GetRequest{ID: two})
		assert.Equal(t, fault.NotFound, fault.CodeOf(err))

		reply, err := from.importFile("c", from.export(one))
		require.NoError(t, err)
		assert.True(t, reply.Tasks[0].Existing, "its own history")
		assert.Nil(t, from.get(one).Imported)
		assert.Equal(t, statemachine.Cancelled, from.get(one).State)
	})
}

// TestImportDamaged: a damaged file is refused as a whole, whatever byte is wrong.
func TestImportDamaged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := start(t, memlog.New(memlog.Config{}), exporting)
		id := from.submit(importedPlan)
		file := from.export(id)
		_, err := export.Verify(bytes.NewReader(file), export.Visitor{})
		require.NoError(t, err)
		n := start(t, memlog.New(memlog.Config{}), exporting)
		for _, at := range []int{0, 50, len(file) / 2, len(file) - 1} {
			changed := bytes.Clone(file)
			changed[at] ^= 1
			_, err := n.importFile("f", changed)
			assert.Contains(t, []fault.Code{fault.DataLoss, fault.InvalidFormat}, fault.CodeOf(err))
			<-time.After(2 * time.Minute)
		}
		_, err = n.Get(n.ctx(), api.GetRequest{ID: id})
		assert.Equal(t, fault.NotFound, fault.CodeOf(err))
		_, err = n.Import(n.ctx(), api.ImportRequest{File: "../x", Size: 1})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
		_, err = n.Import(n.ctx(), api.ImportRequest{File: "late", Size: 10, Offset: 5})
		assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	})
}
