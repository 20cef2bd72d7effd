package firebase_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// bulk is the size of an event; a few of them fill a hub.
const bulk = 100 << 10

// narrow returns a world whose hub has budget for few events.
func narrow(tb testing.TB, cfg firebase.HubConfig) *world {
	tb.Helper()
	w := &world{realtime: memory.NewRealtime(memory.Config{Backlog: 100_000}), log: &logs{}}
	cfg.Realtime, cfg.Logger = w.realtime, slog.New(slog.NewTextHandler(w.log, nil))
	w.hub = firebase.NewHub(cfg)
	tb.Cleanup(w.hub.Close)
	return w
}

// large writes an event of size bulk to a list.
func (w *world) large(tb testing.TB, path string, n int) {
	tb.Helper()
	w.set(tb, path+"/k"+strconv.Itoa(n), strings.Repeat("x", bulk))
}

// stuck opens sessions that request one batch of messages of a list, and then no more. handed counts the sessions
// that got one.
func (w *world) stuck(tb testing.TB, sessions int, path string) (handed *atomic.Int64, names chan string) {
	tb.Helper()
	handed, names = &atomic.Int64{}, make(chan string, sessions)
	ctx, stop := context.WithCancel(tb.Context())
	var group sync.WaitGroup
	tb.Cleanup(func() { stop(); group.Wait() })
	for i := range sessions {
		name := "stuck" + strconv.Itoa(i)
		w.hub.OpenSession(name, true)
		w.subscribe(tb, name, "s", path, firebase.ChildAdded)
		group.Go(func() {
			if got, err := w.hub.Next(ctx, name, 0, 10*patience); err == nil && len(got) > 0 {
				names <- name
				handed.Add(1)
			}
		})
	}
	return handed, names
}

// hears reports whether a message arrives soon.
func (l *listener) hears() bool {
	l.tb.Helper()
	got, err := l.hub.Next(l.tb.Context(), l.session, l.arrived, 50*time.Millisecond)
	require.NoError(l.tb, err)
	return len(got) > 0
}

// Sessions that are stuck with large events use limited memory, however many they are. A session with small events
// continues next to them, and a reading one with large events is next when a stuck one releases its share.
func TestStuckReadersOfLargeEvents(t *testing.T) {
	t.Parallel()
	const fit, sessions = 10, 30
	w := narrow(t, firebase.HubConfig{Large: fit*bulk + bulk/2, Patience: time.Hour})
	small, reads := w.open(t, "small"), w.open(t, "reads")
	w.subscribe(t, "small", "s", "small", firebase.Value)
	w.subscribe(t, "reads", "s", "mine", firebase.ChildAdded)
	w.large(t, "mine", 0)
	assert.Equal(t, "k0", reads.next().Key)
	require.False(t, reads.hears(), "it has arrived")

	handed, names := w.stuck(t, sessions, "list")
	w.large(t, "list", 0)
	require.Eventually(t, func() bool { return handed.Load() == fit }, patience, time.Millisecond)
	w.large(t, "mine", 1)
	assert.False(t, reads.hears(), "there is no room")
	for n := range 10 {
		w.set(t, "small", float64(n+1))
		assert.Equal(t, any(float64(n+1)), small.next().Data)
	}
	assert.EqualValues(t, fit, handed.Load(), "the others wait")

	w.hub.CloseSession(<-names) // its client did not read for too long
	assert.Equal(t, "k1", reads.next().Key)
	assert.EqualValues(t, fit, handed.Load())
	assert.False(t, reads.hears(), "it has arrived")
	for range sessions - fit { // the others get their turn, too
		w.hub.CloseSession(<-names)
	}
	require.Eventually(t, func() bool { return handed.Load() == sessions }, patience, time.Millisecond)
	assert.Equal(t, 2+fit-1, w.hub.Count(), "nobody else was closed")
}

// A session that does not read uses at most as many bytes as it leaves free.
func TestStuckSessionLeavesRoom(t *testing.T) {
	t.Parallel()
	w := narrow(t, firebase.HubConfig{Large: 10 * bulk, Patience: time.Hour})
	w.open(t, "stuck")
	w.subscribe(t, "stuck", "s", "list", firebase.ChildAdded)
	for n := range 20 {
		w.large(t, "list", n)
	}
	l := w.open(t, "reads")
	w.subscribe(t, "reads", "s", "mine", firebase.ChildAdded)
	for n := range 20 {
		w.large(t, "mine", n)
		assert.Equal(t, "k"+strconv.Itoa(n), l.next().Key)
	}
	assert.Equal(t, 2, w.hub.Count())
}

// A subscription whose event waits too long for budget ends, with a message about it.
func TestNoRoomForTooLong(t *testing.T) {
	t.Parallel()
	w := narrow(t, firebase.HubConfig{Large: bulk + bulk/2, Patience: 100 * time.Millisecond})
	handed, _ := w.stuck(t, 1, "list")
	w.large(t, "list", 0)
	require.Eventually(t, func() bool { return handed.Load() == 1 }, patience, time.Millisecond)
	l := w.open(t, "late")
	w.subscribe(t, "late", "s", "mine", firebase.ChildAdded)
	w.large(t, "mine", 0)
	e := l.next()
	assert.Equal(t, firebase.Closed, e.Type)
	data, _ := e.Data.(object)
	assert.Equal(t, refusal.QuotaExceeded, data["reason"])
}

// Messages in transit to a client keep their budget after their subscription was cancelled.
func TestCancelledWhileItIsSent(t *testing.T) {
	t.Parallel()
	for name, single := range map[string]bool{"a stream": true, "a session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := narrow(t, firebase.HubConfig{Large: bulk + bulk/2, Patience: time.Hour})
			w.hub.OpenSession("sends", single)
			w.subscribe(t, "sends", "s", "list", firebase.ChildAdded)
			w.large(t, "list", 0)
			got, err := w.hub.Next(t.Context(), "sends", 0, patience)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.NoError(t, w.hub.Unsubscribe(t.Context(), "sends", "s"))
			l := w.open(t, "waits")
			w.subscribe(t, "waits", "s", "mine", firebase.ChildAdded)
			w.large(t, "mine", 0)
			assert.False(t, l.hears(), "the bytes are still there")
			if single {
				w.hub.CloseSession("sends")
			} else {
				_, err = w.hub.Next(t.Context(), "sends", got[0].No, time.Millisecond)
				require.NoError(t, err)
			}
			assert.Equal(t, "k0", l.next().Key)
		})
	}
}

// Sessions that do not read leave budget for the small events of one that does, however many they are.
func TestStuckReadersOfSmallEvents(t *testing.T) {
	t.Parallel()
	need.Long(t)
	const sessions, events = 40, 200
	w := narrow(t, firebase.HubConfig{Small: 1 << 20})
	w.stuck(t, sessions, "list")
	l := w.open(t, "reads")
	w.subscribe(t, "reads", "s", "list", firebase.ChildAdded)
	for n := range events {
		w.set(t, "list/k"+strconv.Itoa(n), strings.Repeat("x", 1<<10))
		require.Equal(t, "k"+strconv.Itoa(n), l.next().Key)
	}
	require.Eventually(t, func() bool { return w.hub.Count() == 1 }, patience, time.Millisecond, "the others were closed")
}

// A queued value is replaced even when it is large, and the bytes of the old one are released.
func TestLargeValuesAreMerged(t *testing.T) {
	t.Parallel()
	w := narrow(t, firebase.HubConfig{Large: 5 * bulk, Patience: time.Hour})
	l := w.open(t, "s")
	w.subscribe(t, "s", "v", "n", firebase.Value)
	last := ""
	for n := range 50 {
		last = strings.Repeat("x", bulk) + strconv.Itoa(n)
		w.set(t, "n", last)
	}
	for e := l.next(); e.Data != any(last); e = l.next() {
		assert.Equal(t, "v", e.ID)
	}
	assert.Equal(t, 1, w.hub.Count())
}
