package index_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

var began = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// world is a simple list of tasks beside an index.
type world struct {
	t     *testing.T
	r     *rand.Rand
	x     *index.Index
	lines map[events.TaskID]api.Summary
	seq   uint64
}

func newWorld(t *testing.T, file string, seed uint64) *world {
	t.Helper()
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), x: index.New(file, "log"), lines: map[events.TaskID]api.Summary{}}
	t.Cleanup(w.x.Close)
	return w
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// ids returns the ids of all tasks in order.
func (w *world) ids() []events.TaskID {
	var ids []events.TaskID
	for id := range w.lines {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// change makes a random change.
func (w *world) change() {
	w.seq++
	at := began.Add(time.Duration(w.r.IntN(200)) * time.Second / 7).Truncate(time.Microsecond)
	ids := w.ids()
	if len(ids) == 0 || w.r.IntN(3) == 0 {
		line := api.Summary{
			ID: events.NewTaskID(at), Name: pick(w.r, "a", "ab", "b*", "nightly-1", api.OwnPrefix+"own", ""), CreatedAt: at, UpdatedAt: at,
			State: statemachine.NeedsAction, Priority: pick(w.r, "critical", "high", "normal", "low", ""), Via: pick(w.r, "", "submit"), Requestor: pick(w.r, "user:ada", "user:bob"),
			Labels: pick(w.r, nil, map[string]string{"k": "v"}, map[string]string{"k": "w", "type": "x"}),
		}
		if len(ids) > 0 {
			line.Parent, line.Session = pick(w.r, "", pick(w.r, ids...)), pick(w.r, "", ids[0])
		}
		w.lines[line.ID] = line
		w.x.Put(line, w.seq)
		return
	}
	id := pick(w.r, ids...)
	line := w.lines[id]
	switch w.r.IntN(12) {
	case 0:
		delete(w.lines, id)
		require.NoError(w.t, w.x.Remove([]events.TaskID{id}))
		return
	case 1:
		line.Archived = true
		w.lines[id] = line
		w.x.MarkArchived(id)
		return
	default:
		line.State, line.UpdatedAt, line.Paused = pick(w.r, statemachine.States()...), at, w.r.IntN(2) == 0
		line.Reason, line.Block = pick(w.r, "", "because"), pick(w.r, "", "resource")
	}
	w.lines[id] = line
	w.x.Put(line, w.seq)
}

// request returns a random request.
func (w *world) request() api.ListRequest {
	r := api.ListRequest{
		Limit: 1 + w.r.IntN(5), Name: pick(w.r, "", "", "a", "a*", "*-?", "none"), Requestor: pick(w.r, "", "user:ada", "user:eve"),
		Labels: pick(w.r, nil, nil, map[string]string{"k": "v"}, map[string]string{"k": "w", "type": "x"}, map[string]string{"type": ""}, map[string]string{"no": "x"}),
	}
	for range w.r.IntN(3) {
		r.States = append(r.States, pick(w.r, statemachine.States()...))
	}
	if w.r.IntN(4) == 0 {
		r.Since = began.Add(time.Duration(w.r.Int64N(int64(30 * time.Second))))
	}
	if w.r.IntN(4) == 0 {
		r.Until = began.Add(time.Duration(w.r.Int64N(int64(30 * time.Second))))
	}
	if w.r.IntN(4) == 0 {
		r.ChangedSince = began.Add(time.Duration(w.r.Int64N(int64(30 * time.Second))))
	}
	if ids := w.ids(); len(ids) > 0 {
		r.Parent, r.Session = pick(w.r, "", "", pick(w.r, ids...)), pick(w.r, "", "", ids[0])
	}
	return r
}

// want returns all tasks that match a request, the newest first.
func (w *world) want(r api.ListRequest) []api.Summary {
	var all []api.Summary
	for _, s := range w.lines {
		ok := len(r.States) == 0 || slices.Contains(r.States, s.State)
		ok = ok && (r.Parent == "" || r.Parent == s.Parent) && (r.Session == "" || r.Session == s.Session)
		ok = ok && (r.Requestor == "" || r.Requestor == s.Requestor) && (r.Since.IsZero() || !s.CreatedAt.Before(r.Since))
		ok = ok && (r.Until.IsZero() || s.CreatedAt.Before(r.Until)) && (r.ChangedSince.IsZero() || !s.UpdatedAt.Before(r.ChangedSince))
		for k, v := range r.Labels {
			ok = ok && s.Labels[k] == v
		}
		if r.Name != "" {
			named, _ := path.Match(r.Name, s.Name)
			ok = ok && named
		} else if r.Parent == "" {
			ok = ok && !strings.HasPrefix(s.Name, api.OwnPrefix)
		}
		if ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b api.Summary) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	return all
}

// check compares the pages of a request with the simple list.
func (w *world) check(r api.ListRequest) {
	w.t.Helper()
	want, got := w.want(r), []api.Summary(nil)
	var after *api.Summary
	for {
		page, more := w.x.List(r, after, nil)
		require.LessOrEqual(w.t, len(page), r.Limit)
		got = append(got, page...)
		if !more {
			break
		}
		after = &page[len(page)-1]
	}
	require.Equal(w.t, want, got, "%+v", r)
}

// checkAll compares many answers with the simple list.
func (w *world) checkAll() {
	w.t.Helper()
	w.check(api.ListRequest{Limit: 3})
	for range 20 {
		w.check(w.request())
	}
	for range 10 {
		w.checkQueue()
	}
	w.checkHeads()
	w.checkOpen()
	finished, unarchived := 0, 0
	for id, s := range w.lines {
		if s.State.Terminal() {
			finished++
			if !s.Archived {
				unarchived++
			}
		}
		got, n := w.x.Find(string(id))
		require.Equal(w.t, id, got)
		require.Equal(w.t, 1, n)
	}
	require.Equal(w.t, finished, w.x.Finished())
	require.Equal(w.t, unarchived, w.x.Unarchived())
	_, n := w.x.Find("TASK_0")
	require.Len(w.t, w.lines, n)
}

// checkQueue compares the queue, read in pages, and its counts with the simple list.
func (w *world) checkQueue() {
	w.t.Helper()
	r := api.QueueRequest{
		Priority: pick(w.r, "", "", "high", "normal"), Status: pick(w.r, "", "", api.QueuePending, api.QueueBlocked), Type: pick(w.r, "", "", "x", "none"),
		IncludeAssigned: w.r.IntN(2) == 0,
	}
	if ids := w.ids(); len(ids) > 0 {
		r.Except = pick(w.r, "", pick(w.r, ids...))
	}
	now := began.Add(time.Hour)
	want, stats := w.wantQueue(r, now)
	var got []api.Summary
	var after *api.Summary
	for {
		page, counted := w.x.Queue(r, after, 3, now)
		require.Equal(w.t, stats, counted)
		got = append(got, page...)
		if len(page) < 3 {
			break
		}
		after = &page[2]
	}
	require.Equal(w.t, want, got, "%+v", r)
}

// wantQueue returns the tasks in the queue that match a request, in order, and counts all.
func (w *world) wantQueue(r api.QueueRequest, now time.Time) (all []api.Summary, stats api.QueueStats) {
	wait := time.Duration(0)
	for _, s := range w.lines {
		view := statemachine.ViewOf(s.State, s.Block)
		if view.Queue == "" || s.ID == r.Except || strings.HasPrefix(s.Name, api.OwnPrefix) {
			continue
		}
		stats.Total++
		switch view.Queue {
		case api.QueuePending:
			stats.Pending++
			wait += now.Sub(s.CreatedAt)
		case api.QueueAssigned:
			stats.Assigned++
		case api.QueueInProgress:
			stats.InProgress++
		default:
			stats.Blocked++
		}
		if stats.Oldest == nil || s.CreatedAt.Before(*stats.Oldest) {
			stats.Oldest = new(s.CreatedAt)
		}
		ok := r.Status == view.Queue || r.Status == "" && (r.IncludeAssigned || !view.Assigned)
		ok = ok && (r.Priority == "" || work.Urgency(r.Priority) == work.Urgency(s.Priority)) && (r.Type == "" || s.Labels["type"] == r.Type)
		if ok {
			all = append(all, s)
		}
	}
	if stats.Pending > 0 {
		stats.Wait = wait / time.Duration(stats.Pending)
	}
	slices.SortFunc(all, func(a, b api.Summary) int {
		return cmp.Or(cmp.Compare(work.Urgency(a.Priority), work.Urgency(b.Priority)), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, stats
}

// checkHeads compares the heads of the finished tasks with the simple list.
func (w *world) checkHeads() {
	w.t.Helper()
	before := pick(w.r, time.Time{}, began.Add(time.Duration(w.r.Int64N(int64(30*time.Second)))))
	old := func(at time.Time) bool { return before.IsZero() || at.Before(before) }
	for _, archived := range []bool{false, true} {
		want, got := []events.Head(nil), []events.Head(nil)
		for _, id := range w.ids() {
			if s := w.lines[id]; s.State.Terminal() && s.Archived == archived && old(s.CreatedAt) && old(s.UpdatedAt) {
				want = append(want, events.Head{Task: id, State: string(s.State), Parent: s.Parent, Created: s.CreatedAt, At: s.UpdatedAt})
			}
		}
		for h := range w.x.Heads(archived, before) {
			got = append(got, h)
		}
		require.ElementsMatch(w.t, want, got)
	}
}

// Every answer equals that of a simple list, after every kind of change.
func TestLikeASimpleList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(t, "", seed)
		for range 15 {
			for range 20 {
				w.change()
			}
			w.checkAll()
		}
	}
}

// A file gives back the finished tasks, and open tasks are put again.
func TestFile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		file := filepath.Join(t.TempDir(), "lists.idx")
		w := newWorld(t, file, seed)
		past, live := w.x.Load(0, 0)
		require.Zero(t, past+live)
		w.x.SetComplete()
		for round := range 8 {
			for range 40 {
				w.change()
			}
			require.NoError(t, w.x.Save(7, w.seq))
			if round%2 == 1 {
				w.restart(file)
			}
			w.checkAll()
		}
	}
}

// restart opens the index again.
func (w *world) restart(file string) {
	w.t.Helper()
	w.x.Close()
	w.x = index.New(file, "log")
	w.t.Cleanup(w.x.Close)
	for _, line := range w.lines {
		if !line.State.Terminal() {
			w.x.Put(line, w.seq)
		}
	}
	past, live := w.x.Load(7, w.seq)
	require.Equal(w.t, []uint64{7, w.seq}, []uint64{past, live})
	w.x.SetComplete()
}

// saved returns the path of a file with ten finished tasks at position 10, in two chunks.
func saved(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lists.idx")
	x := index.New(file, "log")
	defer x.Close()
	x.Load(0, 0)
	x.SetComplete()
	for seq := range uint64(10) {
		at := began.Add(time.Duration(seq) * time.Second)
		x.Put(api.Summary{ID: events.NewTaskID(at), Name: "n", State: statemachine.Done, CreatedAt: at, UpdatedAt: at}, seq+1)
		if seq == 4 {
			require.NoError(t, x.Save(0, 5))
		}
	}
	require.NoError(t, x.Save(0, 10))
	return file
}

func TestFileThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(data []byte) []byte
		log   string
		last  uint64
		live  uint64
		tasks int
	}{
		"whole":              {live: 10, tasks: 10},
		"missing end":        {spoil: func(d []byte) []byte { return d[:len(d)-1] }, live: 5, tasks: 5},
		"damaged last chunk": {spoil: func(d []byte) []byte { d[len(d)-3] ^= 1; return d }, live: 5, tasks: 5},
		"damaged first line": {spoil: func(d []byte) []byte { d[3] ^= 1; return d }},
		"empty":              {spoil: func([]byte) []byte { return nil }},
		"another log":        {log: "other"},
		"ahead of the log":   {last: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := saved(t)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			if test.spoil != nil {
				require.NoError(t, os.WriteFile(file, test.spoil(data), 0o600))
			}
			log, last := "log", uint64(10)
			if test.log != "" {
				log = test.log
			}
			if test.last != 0 {
				last = test.last
			}
			x := index.New(file, log)
			defer x.Close()
			_, live := x.Load(0, last)
			assert.Equal(t, test.live, live)
			assert.Equal(t, test.tasks, x.Finished())
		})
	}
}

// A row that a later commit has changed is written when the position of the file includes that commit.
func TestFileHoldsNothingLater(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lists.idx")
	x := index.New(file, "log")
	x.Load(0, 0)
	x.SetComplete()
	line := api.Summary{ID: events.NewTaskID(began), State: statemachine.Done, CreatedAt: began, UpdatedAt: began}
	x.Put(line, 5)
	require.NoError(t, x.Save(0, 4))
	x.Close()
	x = index.New(file, "log")
	defer x.Close()
	_, live := x.Load(0, 4)
	assert.Equal(t, uint64(4), live)
	assert.Zero(t, x.Finished())
}

// A file that cannot be continued does not bring back a removed task.
func TestRemoveWithoutAFileToContinue(t *testing.T) {
	t.Parallel()
	file := saved(t)
	x := index.New(file, "log")
	x.Load(0, 10)
	id := events.NewTaskID(began)
	x.Put(api.Summary{ID: id, State: statemachine.Done, CreatedAt: began, UpdatedAt: began}, 11)
	require.NoError(t, x.Save(0, 11))
	x.Close() // as after a failed write
	require.NoError(t, x.Remove([]events.TaskID{id}))

	x = index.New(file, "log")
	defer x.Close()
	x.Load(0, 11)
	_, n := x.Find(string(id))
	assert.Zero(t, n)
}

// A file that is of no use after all, although it says that tasks were removed, leaves an empty index.
func TestDiscardRemovedRows(t *testing.T) {
	t.Parallel()
	file := saved(t)
	x := index.New(file, "log")
	x.Load(0, 10)
	page, _ := x.List(api.ListRequest{Limit: 10}, nil, nil)
	require.NoError(t, x.Remove([]events.TaskID{page[3].ID, page[7].ID}))
	x.Close()

	x = index.New(file, "log")
	defer x.Close()
	_, live := x.Load(0, 9)
	assert.Zero(t, live)
	assert.Zero(t, x.Finished())
	x.Put(page[3], 9)
	page, _ = x.List(api.ListRequest{Limit: 10}, nil, nil)
	assert.Len(t, page, 1)
}

func TestTree(t *testing.T) {
	t.Parallel()
	x := index.New("", "")
	var ids []events.TaskID
	for i := range 6 {
		at := began.Add(time.Duration(i) * time.Second)
		line := api.Summary{ID: events.NewTaskID(at), Name: strconv.Itoa(i), CreatedAt: at, UpdatedAt: at}
		if i == 2 || i == 4 {
			line.Parent = ids[i-2]
		}
		ids = append(ids, line.ID)
		x.Put(line, uint64(i)+1)
	}
	page, omitted := x.Tree(ids[4], 2, 10)
	require.Len(t, page, 2)
	assert.Equal(t, []string{"0", "2"}, []string{page[0].Name, page[1].Name})
	assert.Equal(t, 1, omitted)
	page, _ = x.Tree(events.NewTaskID(began), 2, 10)
	assert.Empty(t, page)
}

func TestLast(t *testing.T) {
	t.Parallel()
	x := index.New("", "")
	_, ok := x.Last("")
	require.False(t, ok)
	var ids []events.TaskID
	for i, via := range []string{"submit", "submit", ""} {
		at := began.Add(time.Duration(i) * time.Second)
		line := api.Summary{ID: events.NewTaskID(at), CreatedAt: at, UpdatedAt: at, Via: via, Requestor: pick(rand.New(rand.NewPCG(1, 1)), "user:ada")}
		ids = append(ids, line.ID)
		x.Put(line, uint64(i)+1)
	}
	newest, _ := x.Last("")
	assert.Equal(t, ids[2], newest)
	submitted, _ := x.Last("user:ada")
	assert.Equal(t, ids[1], submitted)
	_, ok = x.Last("user:eve")
	assert.False(t, ok)
}
