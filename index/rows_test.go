package index_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
)

// Rows are found by their ids, whatever was added and removed before; random ids as well as those that count up.
func TestFindRows(t *testing.T) {
	t.Parallel()
	type id struct{ hi, lo uint64 }
	for name, next := range map[string]func(r *rand.Rand, n int) id{
		"random":         func(r *rand.Rand, _ int) id { return id{r.Uint64(), r.Uint64()} },
		"counting":       func(_ *rand.Rand, n int) id { return id{1 << 60, uint64(n)} },
		"counting above": func(_ *rand.Rand, n int) id { return id{uint64(n) << 16, 0} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 1))
			x, rows, ids := index.NewIDs(), map[id]uint32{}, []id{}
			add := func(n int) {
				one := next(r, n)
				rows[one] = x.Add(one.hi, one.lo)
				ids = append(ids, one)
			}
			remove := func() {
				at := r.IntN(len(ids))
				x.Remove(rows[ids[at]])
				_, ok := x.Find(ids[at].hi, ids[at].lo)
				require.False(t, ok)
				delete(rows, ids[at])
				ids[at] = ids[len(ids)-1]
				ids = ids[:len(ids)-1]
			}
			for n := range 20_000 {
				add(n)
			}
			places := x.Places()
			require.Less(t, places, 32_000)
			for n := range 40_000 {
				remove()
				add(20_000 + n)
				require.LessOrEqual(t, x.Load(), 0.8)
			}
			require.LessOrEqual(t, x.Places(), places+places/4, "places of removed rows are used again")
			for range 15_000 {
				remove()
			}
			for one, row := range rows {
				got, ok := x.Find(one.hi, one.lo)
				require.True(t, ok)
				require.Equal(t, row, got)
			}
		})
	}
}

// An id whose hash looks like the place of a removed row is not found there.
func TestFindAmongRemovedRows(t *testing.T) {
	t.Parallel()
	x := index.NewIDs()
	x.Add(0, 0)
	wanted, likeGone := uint64(0), false
	var at uint64
	for !likeGone {
		wanted++
		at, likeGone = x.Place(1, wanted)
	}
	var rows []uint32
	for lo := uint64(1); len(rows) < 3; lo++ {
		if home, _ := x.Place(2, lo); home == at {
			rows = append(rows, x.Add(2, lo))
		}
	}
	for _, row := range rows[:2] {
		x.Remove(row)
	}
	_, ok := x.Find(1, wanted)
	require.False(t, ok)
	row := x.Add(1, wanted)
	got, ok := x.Find(1, wanted)
	require.True(t, ok)
	require.Equal(t, row, got)
}

// A chunk that was empty takes no more memory for other ids than a new one.
func TestWidthOfAnEmptyChunk(t *testing.T) {
	t.Parallel()
	x := index.NewIDs()
	for round := range uint64(3) {
		var rows []uint32
		for n := range uint64(200) {
			rows = append(rows, x.Add(round<<60+n, n))
		}
		require.Equal(t, 1, x.Width())
		for _, row := range rows {
			x.Remove(row)
		}
		require.Zero(t, x.Width())
	}
}

// checkLines compares all summaries with the simple list.
func (w *world) checkLines() {
	w.t.Helper()
	for id, want := range w.lines {
		got, ok := w.x.Line(id)
		require.True(w.t, ok)
		require.Equal(w.t, want, got)
	}
	_, n := w.x.Find("TASK_")
	require.Len(w.t, w.lines, n)
}

func (w *world) put(line api.Summary) {
	w.seq++
	w.lines[line.ID] = line
	w.x.Put(line, w.seq)
}

// oddTimes are far from each other and from what a task has.
var oddTimes = []time.Time{
	{},
	time.UnixMicro(math.MinInt64).UTC(), time.UnixMicro(math.MaxInt64 - 1).UTC(), time.UnixMicro(0).UTC(), time.UnixMicro(-1).UTC(),
	began.Add(time.Microsecond), began.Add(-time.Microsecond), began.AddDate(-30, 0, 0), began.AddDate(300, 0, 0),
}

// odd returns a summary that differs in some field from those before.
func (w *world) odd(line api.Summary, n int) api.Summary {
	switch n % 8 {
	case 0:
		line.Name = fmt.Sprint("name-", n)
	case 1:
		line.Requestor = fmt.Sprint("user:", n)
	case 2:
		line.Labels = map[string]string{"n": strconv.Itoa(n)}
	case 3:
		line.Parent = events.NewTaskID(began)
	case 4:
		line.Session = events.NewTaskID(began)
	case 5:
		line.Priority, line.Via = "high", fmt.Sprint("command-", n)
	case 6:
		line.CreatedAt = pick(w.r, oddTimes...)
	}
	return line
}

// The rows of some chunks are first equal. Then they change, come to differ, go, and are used again; the summaries stay exact, and
// a file has them too.
func TestRowsThatComeToDiffer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lists.idx")
	w := newWorld(t, file, 1)
	w.x.Load(0, 0)
	w.x.SetComplete()
	const tasks = 3*4096 + 100
	line := func(at time.Time) api.Summary {
		return api.Summary{ID: events.NewTaskID(at), Name: "n", State: statemachine.Done, Requestor: "user:ada", CreatedAt: at, UpdatedAt: at}
	}
	for range tasks {
		w.put(line(began))
	}
	w.checkLines()
	for n, id := range w.ids() {
		if changed := w.lines[id]; n%100 == 0 {
			changed.State, changed.UpdatedAt = statemachine.Failed, pick(w.r, oddTimes...)
			changed.Reason, changed.Block = fmt.Sprint("reason ", n), "resource"
			w.put(changed)
		}
	}
	w.checkLines()
	ids := w.ids()
	for n := range tasks { // one chunk becomes empty, others are mixed
		if n < 2*4096 || n%3 == 0 {
			require.NoError(t, w.x.Remove(ids[n:n+1]))
			delete(w.lines, ids[n])
		}
	}
	w.checkLines()
	for n := range 2 * 4096 {
		w.put(w.odd(line(began.Add(time.Duration(n)*time.Hour)), n))
	}
	w.checkLines()
	w.check(api.ListRequest{Limit: 1000})
	w.check(api.ListRequest{Limit: 1000, Name: "name-*"})
	w.check(api.ListRequest{Limit: 1000, Requestor: "user:ada", Name: "n"})
	require.NoError(t, w.x.Save(7, w.seq))
	w.restart(file)
	w.checkLines()
}

// A chunk whose rows have all gone takes other rows as if it were new.
func TestEmptyChunkIsUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", 1)
	for round := range 4 {
		for n := range 5000 {
			at := began.AddDate(round*10, 0, 0).Add(time.Duration(n) * time.Microsecond)
			w.put(w.odd(api.Summary{ID: events.NewTaskID(at), State: statemachine.NeedsAction, CreatedAt: at, UpdatedAt: at}, round*n))
		}
		w.checkLines()
		require.NoError(t, w.x.Remove(w.ids()))
		clear(w.lines)
		w.checkLines()
		require.Zero(t, w.x.Open())
	}
}
