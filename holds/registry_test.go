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
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
)

func start(t *testing.T, j *journaledtest.Journal) *holds.Registry {
	t.Helper()
	r := holds.New(j.Open)
	require.NoError(t, r.Start(t.Context()))
	return r
}

// failOnce makes the next append to a journal fail; lost is set if it has its effect nevertheless.
func failOnce(j *journaledtest.Journal, code fault.Code, lost bool) {
	j.Failing = func() (error, bool) {
		j.Failing = nil
		return fault.New(code, "it fails once"), lost
	}
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
	j := &journaledtest.Journal{}
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
	j := &journaledtest.Journal{}
	r := start(t, j)
	failOnce(j, fault.DiskFull, false)
	_, err := place(t, r, hold("a", "a", "x"))
	require.Equal(t, fault.DiskFull, fault.CodeOf(err))
	assert.False(t, r.Held("a"))
	failOnce(j, fault.Unavailable, true)
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
	j := &journaledtest.Journal{}
	r := start(t, j)
	const n = 1500
	for i := range n {
		id := strconv.Itoa(i)
		_, err := place(t, r, hold(id, id, "x"))
		require.NoError(t, err)
	}
	require.NotNil(t, j.Saved)
	assert.Less(t, len(j.Entries), 1024)
	assert.Len(t, start(t, j).List(false), n)
}

func TestADamagedJournalIsAnError(t *testing.T) {
	t.Parallel()
	j := &journaledtest.Journal{Exists: true, Entries: [][]byte{[]byte("{")}}
	r := holds.New(j.Open)
	require.Equal(t, fault.DataLoss, fault.CodeOf(r.Start(t.Context())))
}

// A hold is placed before or after a removal, never while it runs.
func TestGuard(t *testing.T) {
	t.Parallel()
	r := start(t, &journaledtest.Journal{})
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
	good, err := json.Marshal([]any{map[string]any{"holds": []api.Hold{hold("a", "a", "x")}}})
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`[{"holds":[{"task":"a","released":{}}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &journaledtest.Journal{Exists: true, Entries: [][]byte{data}}
		r := holds.New(j.Open)
		if err := r.Start(t.Context()); err != nil {
			require.Equal(t, fault.DataLoss, fault.CodeOf(err))
		}
	})
}
