package embedded_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/embedded"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// patience limits waits that normally take no time.
const patience = time.Minute

// heard is the events of a watcher, and the error that ended them.
type heard struct {
	events chan firebase.Event
	ended  chan error
}

func watch(t *testing.T, b firebase.Backend, path string, events firebase.EventType) heard {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w, err := b.Watch(ctx, path, events)
	require.NoError(t, err)
	h := heard{make(chan firebase.Event, 1000), make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range w.Events {
			if err != nil {
				h.ended <- err
				return
			}
			h.events <- e
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return h
}

func (h heard) next(t *testing.T) firebase.Event {
	t.Helper()
	select {
	case e := <-h.events:
		return e
	case <-time.After(patience):
		require.FailNow(t, "nothing was heard")
		return firebase.Event{}
	}
}

// Two nodes with one journal: each reads confirmed writes of the other at once, its watchers get the events in order,
// and no increment is lost.
func TestTwoNodesOnOneJournal(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(embedded.Config) *embedded.Database{"realtime": embedded.NewRealtime, "firestore": embedded.NewFirestore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{news: true}
			cfg := embedded.Config{Shared: true, Backlog: 1000, Entries: 25}
			a, b := j.open(t, open, cfg), j.open(t, open, cfg)
			what := firebase.ChildAdded
			if name == "firestore" {
				what = firebase.DocumentAdded
			}
			h := watch(t, b, "list", what)
			const writes = 100
			for n := range writes {
				require.NoError(t, set(t, a, "list/k"+strconv.Itoa(n), map[string]any{"n": float64(n)}))
				require.Equal(t, any(map[string]any{"n": float64(n)}), read(t, b, "list/k"+strconv.Itoa(n)), "at once")
			}
			for n := range writes {
				assert.Equal(t, "k"+strconv.Itoa(n), h.next(t).Key)
			}
			increment := func(s firebase.Snapshot) (firebase.Write, error) {
				data, _ := s.Data.(map[string]any)
				n, _ := data["n"].(float64)
				return firebase.Write{Operation: firebase.Set, Data: map[string]any{"n": n + 1}}, nil
			}
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					_, err := firebase.Transact(t.Context(), []firebase.Backend{a, b}[i%2], "sum/s", increment)
					assert.NoError(t, err)
				})
			}
			group.Wait()
			assert.Equal(t, any(map[string]any{"n": 20.0}), read(t, a, "sum/s"))
		})
	}
}

// A node that is so far behind that missing entries are only in a snapshot reloads the database by itself: writes and
// reads continue, and its watchers are told that they missed events.
func TestNodeThatFellBehindReadsAnew(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *journal, firebase.Backend){
		"write": func(t *testing.T, _ *journal, b firebase.Backend) {
			t.Helper()
			require.NoError(t, set(t, b, "mine", 1.0))
		},
		"read": func(t *testing.T, _ *journal, b firebase.Backend) {
			t.Helper()
			assert.Equal(t, any(8.0), read(t, b, "n"))
		},
		"follow": func(_ *testing.T, j *journal, _ firebase.Backend) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.news = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			b := j.open(t, embedded.NewRealtime, embedded.Config{Shared: true})
			require.NoError(t, set(t, b, "n", 0.0))
			h := watch(t, b, "n", firebase.Value)
			a := embedded.NewRealtime(embedded.Config{Entries: 3, Journal: func(context.Context) (embedded.Journal, error) { return j, nil }})
			for n := range 9 {
				require.NoError(t, set(t, a, "n", float64(n)))
			}
			a.Close()
			require.Positive(t, j.saved)
			use(t, j, b)
			select {
			case err := <-h.ended:
				assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason)
				assert.Contains(t, fault.From(err).Hint, "subscribe again")
			case <-time.After(patience):
				require.FailNow(t, "the watcher was not told")
			}
			assert.Equal(t, any(8.0), read(t, b, "n"))
			h = watch(t, b, "n", firebase.Value)
			require.NoError(t, set(t, b, "n", 9.0))
			assert.Equal(t, any(9.0), h.next(t).Data)
		})
	}
}

// slowly is a journal that saves a snapshot only when it is released.
type slowly struct {
	*journal

	saving, release chan struct{}
	ended           *atomic.Bool
}

// SaveSnapshot implements embedded.Journal.
func (j slowly) SaveSnapshot(ctx context.Context, position uint64, data []byte) error {
	close(j.saving)
	<-j.release
	err := j.journal.SaveSnapshot(ctx, position, data)
	j.ended.Store(true)
	return err
}

// Close also waits for a snapshot that was started before the database was reloaded.
func TestCloseWaitsForFormerSnapshots(t *testing.T) {
	t.Parallel()
	j := &journal{}
	slow := slowly{j, make(chan struct{}), make(chan struct{}), &atomic.Bool{}}
	b := embedded.NewRealtime(embedded.Config{Shared: true, Entries: 5, Journal: func(context.Context) (embedded.Journal, error) { return slow, nil }})
	for n := range 6 {
		require.NoError(t, set(t, b, "n", float64(n)))
	}
	<-slow.saving
	h := watch(t, b, "n", firebase.Value)
	for n := range 2 { // the second one saves the entries of the first one
		a := embedded.NewRealtime(embedded.Config{Entries: 1, Journal: func(context.Context) (embedded.Journal, error) { return j, nil }})
		require.NoError(t, set(t, a, "n", 10+float64(n)))
		a.Close()
	}
	assert.Equal(t, any(11.0), read(t, b, "n"))
	select {
	case err := <-h.ended: // the database was reloaded
		require.Error(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the watcher was not told")
	}
	time.AfterFunc(50*time.Millisecond, func() { close(slow.release) }) // while Close waits, or after it returned
	b.Close()
	assert.True(t, slow.ended.Load())
}
