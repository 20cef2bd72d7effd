package holds_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/holds"
)

// journal is a journal in memory. fail makes the next append fail after it was stored, or before.
type journal struct {
	entries         [][]byte
	base            uint64
	snapshot        []byte
	snapshotAt      uint64
	before, lost    bool
	opened, created int
}

func (j *journal) Append(_ context.Context, newest uint64, data []byte) (uint64, error) {
	switch last := j.base + uint64(len(j.entries)); {
	case j.before:
		j.before = false
		return 0, fault.New(fault.DiskFull, "full")
	case last != newest:
		return 0, fault.New(fault.Conflict, "another change was first")
	}
	j.entries = append(j.entries, data)
	if j.lost {
		j.lost = false
		return 0, fault.New(fault.Unavailable, "the answer is lost")
	}
	return j.base + uint64(len(j.entries)), nil
}

func (j *journal) Read(_ context.Context, after uint64, fn func(uint64, []byte) error) error {
	for i := after; i < j.base+uint64(len(j.entries)); i++ {
		if err := fn(i+1, j.entries[i-j.base]); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) Snapshot(context.Context) ([]byte, uint64, error) {
	return j.snapshot, j.snapshotAt, nil
}

func (j *journal) SaveSnapshot(_ context.Context, position uint64, data []byte) error {
	j.entries = j.entries[position-j.base:]
	j.base, j.snapshot, j.snapshotAt = position, data, position
	return nil
}

func start(t *testing.T, j *journal) *holds.Registry {
	t.Helper()
	r := holds.New(func(_ context.Context, create bool) (holds.Journal, error) {
		j.opened++
		if create {
			j.created++
		}
		if !create && j.created == 0 {
			return nil, nil //nolint:nilnil // there is no journal yet
		}
		return j, nil
	})
	require.NoError(t, r.Start(t.Context()))
	return r
}

func hold(task, family, reason string) api.Hold {
	return api.Hold{Task: events.TaskID(task), Family: events.TaskID(family), Reason: reason, By: "user:ada", At: time.Unix(5, 0).UTC()}
}

func place(t *testing.T, r *holds.Registry, all ...api.Hold) ([]api.Hold, error) {
	t.Helper()
	return r.Place(t.Context(), func() ([]api.Hold, error) { return all, nil })
}

func release(t *testing.T, r *holds.Registry, one api.Hold) {
	t.Helper()
	_, err := r.Release(t.Context(), func([]api.Hold) ([]api.Hold, error) { return []api.Hold{one}, nil }, api.HoldRelease{By: "user:bob"})
	require.NoError(t, err)
}

func TestHoldsSurviveARestart(t *testing.T) {
	t.Parallel()
	j := &journal{}
	r := start(t, j)
	assert.Zero(t, r.Count())
	first, second, other := hold("b", "a", "one"), hold("b", "a", "two"), hold("c", "c", "one")
	_, err := place(t, r, first, second, other)
	require.NoError(t, err)
	again := first
	again.By = "user:eve"
	got, err := place(t, r, again)
	require.NoError(t, err)
	assert.Equal(t, []api.Hold{first}, got, "who held it first stays")
	release(t, r, other)
	for range 2 {
		assert.Equal(t, []api.Hold{first, second}, r.List(false))
		assert.Equal(t, []api.Hold{first, second}, r.Of("a"))
		assert.True(t, r.Held("a"))
		assert.False(t, r.Held("b"), "a family is named by its topmost parent")
		assert.False(t, r.Held("c"))
		assert.Equal(t, map[events.TaskID]bool{"b": true}, r.Tasks())
		require.Len(t, r.List(true), 1)
		assert.Equal(t, "user:bob", r.List(true)[0].Released.By)
		r = start(t, j)
	}
	release(t, r, first)
	assert.True(t, r.Held("a"), "it is held for another reason")
	release(t, r, second)
	assert.False(t, r.Held("a"))
}

// A change whose record fails is not made, and one whose acknowledgement is lost is found again.
func TestHoldsAreThoseOfTheJournal(t *testing.T) {
	t.Parallel()
	j := &journal{}
	r := start(t, j)
	j.before = true
	_, err := place(t, r, hold("a", "a", "x"))
	require.Equal(t, fault.DiskFull, fault.CodeOf(err))
	assert.False(t, r.Held("a"))
	j.lost = true
	_, err = place(t, r, hold("a", "a", "x"))
	require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	_, err = place(t, r, hold("b", "b", "x"))
	require.NoError(t, err)
	assert.True(t, r.Held("a"))
	assert.True(t, r.Held("b"))

	second := start(t, j) // a node that takes over
	_, err = place(t, second, hold("c", "c", "x"))
	require.NoError(t, err)
	_, err = place(t, r, hold("d", "d", "x"))
	require.Equal(t, fault.Conflict, fault.CodeOf(err), "an older node does not write over the newer one")
	_, err = place(t, r, hold("d", "d", "x"))
	require.NoError(t, err)
	assert.True(t, r.Held("c"))
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	j := &journal{}
	r := start(t, j)
	const n = 1500
	for i := range n {
		id := strconv.Itoa(i)
		_, err := place(t, r, hold(id, id, "x"))
		require.NoError(t, err)
	}
	require.NotNil(t, j.snapshot)
	assert.Less(t, len(j.entries), 1024)
	assert.Len(t, start(t, j).List(false), n)
}

func TestADamagedJournalIsAnError(t *testing.T) {
	t.Parallel()
	j := &journal{created: 1, entries: [][]byte{[]byte("{")}}
	r := holds.New(func(context.Context, bool) (holds.Journal, error) { return j, nil })
	require.Equal(t, fault.DataLoss, fault.CodeOf(r.Start(t.Context())))
}

// A hold is placed before or after a removal, never while it runs.
func TestGuard(t *testing.T) {
	t.Parallel()
	r := start(t, &journal{})
	removed := false
	done := r.Guard()
	placed := make(chan error, 1)
	go func() {
		_, err := r.Place(context.Background(), func() ([]api.Hold, error) {
			if !removed { // the race detector sees whether the removal has ended
				return nil, fault.New(fault.Internal, "placed while tasks are removed")
			}
			return []api.Hold{hold("a", "a", "x")}, nil
		})
		placed <- err
	}()
	removed = true
	done()
	require.NoError(t, <-placed)
	assert.True(t, r.Held("a"))
}

// FuzzEntry checks that no entry of a journal makes the registry panic.
func FuzzEntry(f *testing.F) {
	good, err := json.Marshal(map[string]any{"holds": []api.Hold{hold("a", "a", "x")}})
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"holds":[{"task":"a","released":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &journal{created: 1, entries: [][]byte{data}}
		r := holds.New(func(context.Context, bool) (holds.Journal, error) { return j, nil })
		if err := r.Start(t.Context()); err != nil {
			require.Equal(t, fault.DataLoss, fault.CodeOf(err))
		}
	})
}
