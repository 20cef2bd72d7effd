package journaled_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
)

// list is a state: the texts that were added, and how many of them this process has recorded.
type list struct {
	*journaled.State[string]

	all      []string
	recorded int
}

func start(t *testing.T, j *journaledtest.Journal, every uint64) *list {
	t.Helper()
	l := &list{}
	l.State = journaled.New(journaled.Config[string]{
		What: "texts", Open: j.Open, Every: every,
		Apply: func(changes []string, recorded bool) {
			l.all = append(l.all, changes...)
			if recorded {
				l.recorded += len(changes)
			}
		},
		Save: func() any { return l.all },
		Load: func(data []byte) error { return json.Unmarshal(data, &l.all) },
	})
	require.NoError(t, l.Start(t.Context()))
	return l
}

func TestRecordAndReadAgain(t *testing.T) {
	t.Parallel()
	j := &journaledtest.Journal{}
	l := start(t, j, 0)
	assert.False(t, j.Exists, "a start creates no journal")
	require.NoError(t, l.Record(t.Context()))
	assert.False(t, j.Exists, "nor does a record of nothing")
	require.NoError(t, l.Record(t.Context(), "a", "b"))
	require.NoError(t, l.Record(t.Context(), "c"))
	assert.Len(t, j.Entries, 2)
	again := start(t, j, 0)
	assert.Equal(t, []string{"a", "b", "c"}, again.all)
	assert.Zero(t, again.recorded)
	assert.Equal(t, 3, l.recorded)
}

// An entry has a bounded number of changes and a bounded size, but at least one change.
func TestEntriesAreBounded(t *testing.T) {
	t.Parallel()
	j := &journaledtest.Journal{}
	l := start(t, j, 0)
	require.NoError(t, l.Record(t.Context(), strings.Split(strings.Repeat("x,", 249)+"x", ",")...))
	assert.Len(t, j.Entries, 3)
	large := strings.Repeat("y", 200<<10)
	require.NoError(t, l.Record(t.Context(), large, large, "z"))
	assert.Len(t, j.Entries, 5, "the second large one is in an entry with what follows")
	assert.Equal(t, l.all, start(t, j, 0).all)
}

// A change that is not recorded is not made. One of which that is not known is found by Reload.
func TestFailures(t *testing.T) {
	t.Parallel()
	j := &journaledtest.Journal{}
	l := start(t, j, 0)
	j.Failing = func() (error, bool) { return fault.New(fault.DiskFull, "full"), false }
	require.Equal(t, fault.DiskFull, fault.CodeOf(l.Record(t.Context(), "a")))
	assert.True(t, l.Stale())
	j.Failing = func() (error, bool) { return fault.New(fault.Unavailable, "the answer is lost"), true }
	require.NoError(t, l.Reload(t.Context()))
	require.Equal(t, fault.Unavailable, fault.CodeOf(l.Record(t.Context(), "b")))
	assert.Empty(t, l.all)
	j.Failing = nil
	require.NoError(t, l.Reload(t.Context()))
	assert.False(t, l.Stale())
	assert.Equal(t, []string{"b"}, l.all)

	other := start(t, j, 0) // another node has taken over
	require.NoError(t, other.Record(t.Context(), "c"))
	require.Equal(t, fault.Conflict, fault.CodeOf(l.Record(t.Context(), "d")))
	require.NoError(t, l.Reload(t.Context()))
	require.NoError(t, l.Record(t.Context(), "d"))
	assert.Equal(t, []string{"b", "c", "d"}, l.all)
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	j := &journaledtest.Journal{}
	l := start(t, j, 10)
	for range 35 {
		require.NoError(t, l.Record(t.Context(), "x"))
	}
	assert.EqualValues(t, 30, j.Pruned)
	assert.Len(t, j.Entries, 5)
	assert.Len(t, start(t, j, 10).all, 35)
	large := strings.Repeat("y", 9<<20)
	require.NoError(t, l.Record(t.Context(), large))
	require.NoError(t, l.Record(t.Context(), large))
	assert.Empty(t, j.Entries, "few large entries are replaced as well")
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]*journaledtest.Journal{
		"entry":    {Exists: true, Entries: [][]byte{[]byte("{")}},
		"snapshot": {Exists: true, Saved: []byte("{"), Pruned: 1},
	} {
		s := journaled.New(journaled.Config[string]{
			What: "texts", Open: j.Open, Apply: func([]string, bool) {}, Save: func() any { return nil },
			Load: func(data []byte) error { return json.Unmarshal(data, new([]string)) },
		})
		err := s.Start(t.Context())
		require.Equal(t, fault.DataLoss, fault.CodeOf(err), name)
		assert.Contains(t, err.Error(), "the journal of the texts is damaged")
	}
	full := fault.New(fault.DiskFull, "full")
	s := journaled.New(journaled.Config[string]{What: "texts", Open: func(_ context.Context, create bool) (journaled.Journal, error) {
		if create {
			return nil, full
		}
		return nil, nil //nolint:nilnil // there is none yet
	}})
	require.NoError(t, s.Start(t.Context()))
	require.ErrorIs(t, s.Record(t.Context(), "a"), full)
	require.NoError(t, s.Reload(t.Context()), "there is nothing to read")
}

// Entries and snapshots of a newer orch are no damage, and are not used without what this one does not know.
func TestNewer(t *testing.T) {
	t.Parallel()
	type change struct {
		Name string `json:"name"`
	}
	for name, j := range map[string]*journaledtest.Journal{
		"field of an entry":    {Exists: true, Entries: [][]byte{[]byte(`[{"name":"a","until":"tomorrow"}]`)}},
		"form of an entry":     {Exists: true, Entries: [][]byte{[]byte(`{"v":2,"changes":[]}`)}},
		"field of a snapshot":  {Exists: true, Saved: []byte(`[{"name":"a","until":"tomorrow"}]`), Pruned: 1},
		"form of the snapshot": {Exists: true, Saved: []byte(`{"v":2}`), Pruned: 1},
	} {
		s := journaled.New(journaled.Config[change]{
			What: "texts", Open: j.Open, Apply: func([]change, bool) {}, Save: func() any { return nil },
			Load: func(data []byte) error { return journaled.Decode(data, new([]change)) },
		})
		err := s.Start(t.Context())
		require.Equal(t, fault.NewerStore, fault.CodeOf(err), name)
		assert.Contains(t, err.Error(), "a newer orch has written the journal of the texts", name)
	}
}
