package bus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func anIndex(seq uint64) events.Index {
	at := events.Time(time.Now())
	heads := []events.Head{
		{Task: events.NewTaskID(at), State: "IN_PROGRESS", At: at, Created: at, Name: "two words"},
		{Task: events.NewTaskID(at), State: "DONE", At: at, Created: at, Parent: events.NewTaskID(at)},
		{Task: events.NewTaskID(at), At: at, Created: at},
	}
	asleep := []events.Sleeper{{Task: heads[0].Task, Note: []byte(`{"line":"two words"}`)}}
	return events.Index{Seq: seq, Partial: true, Heads: heads, Asleep: asleep}
}

func TestIndexIsKept(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	_, err := n.LoadIndex(t.Context())
	require.True(t, fault.Has(err, fault.NotFound))
	want := anIndex(5)
	require.NoError(t, n.SaveIndex(t.Context(), want))
	n.Stop(t)
	n.Start(t)
	got, err := n.LoadIndex(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestIndexThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(data []byte) []byte{
		"a flipped bit":    func(data []byte) []byte { data[len(data)/2] ^= 1; return data },
		"a missing end":    func(data []byte) []byte { return data[:len(data)-10] },
		"empty":            func([]byte) []byte { return nil },
		"an older version": func(data []byte) []byte { return bytes.Replace(data, []byte(`"v":3`), []byte(`"v":2`), 1) },
		"another log":      func(data []byte) []byte { return bytes.Replace(data, []byte(`"stream":"2`), []byte(`"stream":"1`), 1) },
		"ahead of the log": func(data []byte) []byte { return bytes.Replace(data, []byte(`"seq":5,`), []byte(`"seq":50000,`), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := filled(t)
			n.Start(t)
			require.NoError(t, n.SaveIndex(t.Context(), anIndex(5)))
			path := filepath.Join(n.Config.DataDir, "heads.idx")
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, spoil(data), 0o600))
			_, err = n.LoadIndex(t.Context())
			assert.True(t, fault.Has(err, fault.NotFound))
			assert.NoFileExists(t, path, "it must not seem to fit later")
		})
	}
}

func TestHeadsAfter(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	newest := map[events.TaskID]events.Head{}
	last := uint64(0)
	for h, err := range n.Heads(t.Context()) {
		require.NoError(t, err)
		newest[h.Task] = h
		last = max(last, h.Seq)
	}
	for _, after := range []uint64{0, 1, last - 1, last, last + 7} {
		got := map[events.TaskID]events.Head{}
		seq := after
		for h, err := range n.HeadsAfter(t.Context(), after) {
			require.NoError(t, err)
			require.Greater(t, h.Seq, seq)
			seq = h.Seq
			got[h.Task] = h
		}
		want := map[events.TaskID]events.Head{}
		for task, h := range newest {
			if h.Seq > after {
				want[task] = h
			}
		}
		assert.Equal(t, want, got, "after %d", after)
	}
}

func TestNoIndexAfterLoss(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	require.NoError(t, n.SaveIndex(t.Context(), anIndex(5)))
	deleteMessage(t, n, "ORCH_EVENTS", 45)
	n.Stop(t)
	n.Start(t)
	_, err := n.LoadIndex(t.Context())
	assert.True(t, fault.Has(err, fault.NotFound))
	require.NoError(t, n.SaveIndex(t.Context(), anIndex(6)))
}

var _ events.Indexes = (*bus.Store)(nil)

// No byte of the index counts for something else than it was written for.
func TestEveryByteOfTheIndex(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	require.NoError(t, n.SaveIndex(t.Context(), anIndex(5)))
	want, err := n.LoadIndex(t.Context())
	require.NoError(t, err)
	path := filepath.Join(n.Config.DataDir, "heads.idx")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range data {
		data[at] ^= 1
		require.NoError(t, os.WriteFile(path, data, 0o600))
		data[at] ^= 1
		got, err := n.LoadIndex(t.Context())
		if !fault.Has(err, fault.NotFound) {
			require.NoError(t, err)
			require.Equal(t, want, got, "byte %d", at)
		}
	}
}
