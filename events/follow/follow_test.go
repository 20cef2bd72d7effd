package follow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/events/memlog"
)

// world is a log, what was appended to it, and what a reader has seen.
type world struct {
	t     *testing.T
	log   *memlog.Log
	heads map[events.TaskID]events.Head
	seen  map[string]int
	// most is the number of commits with which a look is full.
	most int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, log: memlog.New(memlog.Config{}), heads: map[events.TaskID]events.Head{}, seen: map[string]int{}, most: 100}
}

func idOf(key string) events.TaskID { return events.KeyedTaskID("", key) }

// append appends a commit to the history of a task.
func (w *world) append(key string) {
	w.t.Helper()
	task := idOf(key)
	head := w.heads[task]
	next := events.Head{Task: task, Rev: head.Rev + 1, At: time.Unix(1, 0)}
	w.log.Append(events.Record{Head: next, After: head.Seq, Data: fmt.Appendf(nil, "%s/%d", key, next.Rev)}, func(seq uint64, err error) {
		require.NoError(w.t, err)
		next.Seq = seq
	})
	w.heads[task] = next
}

// look looks once, and returns the next cursor.
func (w *world) look(from follow.Cursor) follow.Cursor {
	w.t.Helper()
	n := 0
	to, err := follow.Look{
		Log:     w.log,
		Commit:  func(_ context.Context, s events.Stored) error { n++; w.seen[string(s.Data)]++; return nil },
		Full:    func() bool { return n >= w.most },
		Missing: func(context.Context, error) bool { return false },
	}.From(w.t.Context(), from)
	require.NoError(w.t, err)
	return to
}

func TestNewestIsBehindEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("A")
	w.append("A")
	from, err := follow.Newest(t.Context(), w.log)
	require.NoError(t, err)
	assert.Equal(t, from, w.look(from), "nothing is new")
	w.append("A")
	require.NoError(t, w.log.Archive(t.Context(), idOf("A")))
	w.append("B")
	to := w.look(from)
	assert.Equal(t, map[string]int{"A/3": 1, "B/1": 1}, w.seen)
	assert.Equal(t, to, w.look(to))
}

// Whatever is archived between two looks, and however little a look takes, each commit is seen, and none twice.
func TestEachCommitIsSeenOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w, random := newWorld(t), rand.New(rand.NewPCG(seed, 1))
		w.most = 1 + random.IntN(5)
		var cursor follow.Cursor
		archived := map[string]bool{}
		want := 0
		for range 300 {
			task := fmt.Sprint("t", random.IntN(20))
			switch {
			case random.IntN(4) == 0:
				cursor = w.look(cursor)
			case archived[task]:
			case random.IntN(8) == 0 && w.heads[idOf(task)].Rev > 0:
				require.NoError(t, w.log.Archive(t.Context(), idOf(task)))
				archived[task] = true
			default:
				w.append(task)
				want++
			}
		}
		for before := (follow.Cursor{Seq: 1}); before != cursor; {
			before, cursor = cursor, w.look(cursor)
		}
		assert.Len(t, w.seen, want)
		for commit, times := range w.seen {
			assert.Equal(t, 1, times, "seed %d: %s", seed, commit)
		}
	}
}

func TestErrorsEndALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("A")
	for _, archive := range []bool{false, true} {
		if archive {
			require.NoError(t, w.log.Archive(t.Context(), idOf("A")))
		}
		from := follow.Cursor{}
		to, err := follow.Look{
			Log:    w.log,
			Commit: func(context.Context, events.Stored) error { return assert.AnError },
			Full:   func() bool { return false }, Missing: func(context.Context, error) bool { return true },
		}.From(t.Context(), from)
		require.ErrorIs(t, err, assert.AnError)
		assert.Equal(t, from, to)
	}
}
