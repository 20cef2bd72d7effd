package firebase_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// patience limits waits that normally take no time.
const patience = time.Minute

// listener receives the messages of a session from a hub.
type listener struct {
	tb      testing.TB
	hub     *firebase.Hub
	session string
	arrived uint64
	waiting []firebase.Message
}

// event is the parameters of a message.
type event struct {
	ID       string `json:"subscriptionId"`
	Type     string `json:"eventType"`
	Data     any    `json:"data"`
	Previous any    `json:"previousData"`
	Key      string `json:"key"`
}

func (l *listener) next() event {
	l.tb.Helper()
	for len(l.waiting) == 0 {
		var err error
		l.waiting, err = l.hub.Next(l.tb.Context(), l.session, l.arrived, patience)
		require.NoError(l.tb, err)
		require.NotEmpty(l.tb, l.waiting, "nothing came")
	}
	m := l.waiting[0]
	l.waiting, l.arrived = l.waiting[1:], m.No
	var e event
	require.NoError(l.tb, json.Unmarshal(m.Params, &e))
	assert.Equal(l.tb, m.ID, e.ID)
	return e
}

// world is a hub with databases in memory.
type world struct {
	realtime *memory.Realtime
	hub      *firebase.Hub
	log      *logs
}

func newWorld(tb testing.TB, cfg memory.Config) *world {
	tb.Helper()
	w := &world{realtime: memory.NewRealtime(cfg), log: &logs{}}
	w.hub = firebase.NewHub(firebase.HubConfig{
		Realtime: w.realtime, Firestore: memory.NewFirestore(cfg), Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	tb.Cleanup(w.hub.Close)
	return w
}

func (w *world) open(tb testing.TB, session string) *listener {
	tb.Helper()
	w.hub.OpenSession(session, false)
	return &listener{tb: tb, hub: w.hub, session: session}
}

func (w *world) subscribe(tb testing.TB, session, id, path string, events firebase.EventType) firebase.Snapshot {
	tb.Helper()
	s, err := w.hub.Subscribe(tb.Context(), session, firebase.Subscription{ID: id, Database: firebase.Realtime, Path: path, Events: events, Call: session + id})
	require.NoError(tb, err)
	return s
}

func (w *world) set(tb testing.TB, path string, data any) {
	tb.Helper()
	_, err := w.realtime.Write(tb.Context(), path, firebase.Write{Operation: firebase.Set, Data: data})
	require.NoError(tb, err)
}

// logs is a concurrency-safe buffer for log output.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written.
func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// S3-010: values that change faster than the pace are merged. The latest one always arrives, and its previous value
// is the last one that the client received.
func TestValuesAreMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{Backlog: 100_000})
	l := w.open(t, "s")
	w.subscribe(t, "s", "v", "n", firebase.Value)
	const writes = 5000
	go func() {
		for n := range writes {
			_, err := w.realtime.Write(t.Context(), "n", firebase.Write{Operation: firebase.Set, Data: float64(n + 1)})
			assert.NoError(t, err)
		}
	}()
	heard, last := 0, any(nil)
	for last != any(float64(writes)) {
		e := l.next()
		assert.Equal(t, last, e.Previous)
		last = e.Data
		heard++
	}
	assert.Less(t, heard, writes/2, "values were merged")
	t.Logf("%d of %d values were sent", heard, writes)
}

// S3-010, S3-045: the pace separates two batches, and the size of a batch is limited. Only values are merged.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	w.open(t, "s")
	w.subscribe(t, "s", "c", "list", firebase.ChildAdded)
	const children = 3 * firebase.MaxBatch
	for n := range children {
		w.set(t, "list/k"+strconv.Itoa(n), float64(n))
	}
	begun, arrived := time.Now(), uint64(0)
	batches := 0
	for arrived < children {
		batch, err := w.hub.Next(t.Context(), "s", arrived, patience)
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		assert.LessOrEqual(t, len(batch), firebase.MaxBatch)
		again, err := w.hub.Next(t.Context(), "s", arrived, patience)
		require.NoError(t, err)
		assert.Equal(t, batch, again[:len(batch)], "what did not arrive comes again")
		assert.Equal(t, arrived+1, batch[0].No)
		arrived = batch[len(batch)-1].No
		batches++
	}
	assert.GreaterOrEqual(t, time.Since(begun), time.Duration(batches)*firebase.Pace)
}

// S3-045: a session that nobody reads uses limited memory, does not block others, and is told that it lost events.
func TestStuckSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	stuck, quick := w.open(t, "stuck"), w.open(t, "quick")
	for _, session := range []string{"stuck", "quick"} {
		w.subscribe(t, session, "s", "list", firebase.ChildAdded)
	}
	const events, burst = firebase.MaxQueue + 5*firebase.MaxBatch, firebase.MaxBatch
	for n, heard := 0, 0; n < events; n++ {
		w.set(t, "list/k", float64(n))
		w.set(t, "list/k", nil)
		for ; n%burst == burst-1 && heard <= n; heard++ {
			require.Equal(t, any(float64(heard)), quick.next().Data)
		}
	}
	require.Eventually(t, func() bool { return w.hub.Count() == 1 }, patience, time.Millisecond)
	for n := 0; ; n++ {
		e := stuck.next()
		if e.Type == firebase.Closed {
			assert.Equal(t, firebase.MaxQueue, n)
			data, _ := e.Data.(object)
			assert.Equal(t, refusal.QuotaExceeded, data["reason"])
			break
		}
		require.Equal(t, any(float64(n)), e.Data, "no gap before the end")
	}
	assert.Contains(t, w.log.String(), "firebase_subscription_closed")
	assert.Equal(t, 1, w.hub.Count())
	w.subscribe(t, "stuck", "s", "list", firebase.ChildAdded)
}

// S3-045: the queue of a session is also limited in bytes.
func TestStuckSessionOfLargeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	l := w.open(t, "s")
	w.subscribe(t, "s", "s", "list", firebase.ChildAdded)
	w.subscribe(t, "s", "other", "other", firebase.Value)
	const size = 1 << 20
	for range 2 * firebase.MaxQueueBytes / size {
		w.set(t, "list/k", strings.Repeat("x", size))
		w.set(t, "list/k", nil)
	}
	require.Eventually(t, func() bool { return w.hub.Count() == 1 }, patience, time.Millisecond)
	n := 0
	for ; l.next().Type != firebase.Closed; n++ {
		assert.Less(t, n, firebase.MaxQueueBytes/size)
	}
	assert.Equal(t, firebase.MaxQueueBytes/size-1, n)
	w.set(t, "other", 1.0)
	assert.Equal(t, "other", l.next().ID, "the other subscriptions go on")
}

// An event that exceeds the size of a message ends its subscription, with a message about it.
func TestLargeEventEndsItsSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	l := w.open(t, "s")
	w.subscribe(t, "s", "v", "n", firebase.Value)
	w.set(t, "n", strings.Repeat("x", firebase.MaxMessage/2))
	assert.Len(t, l.next().Data, firebase.MaxMessage/2)
	w.set(t, "n", strings.Repeat("y", firebase.MaxMessage))
	e := l.next()
	assert.Equal(t, firebase.Closed, e.Type)
	data, _ := e.Data.(object)
	assert.Equal(t, refusal.SizeLimitExceeded, data["reason"])
}

// A repeated call gets its own subscription, and no other call does (S3-044).
func TestAttemptsOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	l := w.open(t, "s")
	for range 3 {
		w.subscribe(t, "s", "v", "n", firebase.Value)
	}
	assert.Equal(t, 1, w.hub.Count())
	_, err := w.hub.Subscribe(t.Context(), "s", firebase.Subscription{ID: "v", Database: firebase.Realtime, Path: "n", Events: firebase.Value, Call: "other"})
	assert.Equal(t, refusal.Conflict, fault.From(err).Reason)
	w.set(t, "n", 1.0)
	assert.Equal(t, event{ID: "v", Type: "value", Data: 1.0}, l.next())
	w.set(t, "n", 2.0)
	assert.Equal(t, event{ID: "v", Type: "value", Data: 2.0, Previous: 1.0}, l.next(), "there is one subscription")
}

// S3-048: after the end no message arrives, not even a queued one.
func TestUnsubscribeTakesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	l := w.open(t, "s")
	w.subscribe(t, "s", "a", "list", firebase.ChildAdded)
	w.subscribe(t, "s", "b", "list", firebase.ChildAdded)
	for n := range 10 {
		w.set(t, "list/k"+strconv.Itoa(n), 1.0)
	}
	require.Equal(t, "k0", l.next().Key)
	require.NoError(t, w.hub.Unsubscribe(t.Context(), "s", "a"))
	assert.True(t, fault.Has(w.hub.Unsubscribe(t.Context(), "s", "a"), fault.Gone), "S3-151")
	assert.Equal(t, refusal.NotFound, fault.From(w.hub.Unsubscribe(t.Context(), "s", "c")).Reason)
	assert.Equal(t, refusal.NotFound, fault.From(w.hub.Unsubscribe(t.Context(), "other", "b")).Reason)
	l.waiting = nil // request again
	w.set(t, "list/last", 1.0)
	for key := ""; key != "last"; {
		e := l.next()
		assert.Equal(t, "b", e.ID)
		key = e.Key
	}
}

// S3-045: a session without requests ends by itself, and so does a waiting request when the session or the hub ends.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	realtime := memory.NewRealtime(memory.Config{})
	hub := firebase.NewHub(firebase.HubConfig{Realtime: realtime, Idle: time.Millisecond})
	t.Cleanup(hub.Close)
	hub.OpenSession("idle", false)
	require.Eventually(t, func() bool {
		_, err := hub.Next(t.Context(), "idle", 0, 0)
		return fault.Has(err, fault.NotFound)
	}, patience, 5*time.Millisecond)

	w := newWorld(t, memory.Config{})
	for _, end := range []func(){func() { w.hub.CloseSession("s") }, w.hub.Close} {
		w.open(t, "s")
		w.subscribe(t, "s", "v", "n", firebase.Value)
		ended := make(chan error, 1)
		go func() {
			_, err := w.hub.Next(context.Background(), "s", 0, patience)
			ended <- err
		}()
		end()
		assert.True(t, fault.Has(<-ended, fault.NotFound))
		assert.Zero(t, w.hub.Count())
	}
	w.hub.OpenSession("late", false)
	_, err := w.hub.Next(t.Context(), "late", 0, 0)
	assert.True(t, fault.Has(err, fault.NotFound))
}

// A session remembers a limited number of ended subscriptions, including those that the hub ended, but none that
// failed to start.
func TestEndedSubscriptionsAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	l := w.open(t, "s")
	for n := range firebase.MaxEnded + 1 {
		id := strconv.Itoa(n)
		w.subscribe(t, "s", id, "p", firebase.Value)
		require.NoError(t, w.hub.Unsubscribe(t.Context(), "s", id))
	}
	ended := func(id string) fault.Code { return fault.CodeOf(w.hub.Unsubscribe(t.Context(), "s", id)) }
	assert.Equal(t, fault.NotFound, ended("0"), "forgotten")
	assert.Equal(t, fault.Gone, ended("1"))
	_, err := w.hub.Subscribe(t.Context(), "s", firebase.Subscription{ID: "wrong", Database: firebase.Realtime, Path: "a//b", Events: firebase.Value})
	require.Error(t, err)
	assert.Equal(t, fault.NotFound, ended("wrong"))
	w.subscribe(t, "s", "large", "large", firebase.Value)
	w.set(t, "large", strings.Repeat("x", firebase.MaxMessage))
	assert.Equal(t, firebase.Closed, l.next().Type)
	assert.Equal(t, fault.Gone, ended("large"))
}

// A session for one subscription closes when that is cancelled, and a waiting request returns that.
func TestSingleSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	w.hub.OpenSession("one", true)
	w.subscribe(t, "one", "a", "p", firebase.Value)
	w.set(t, "p", 1.0)
	heard, err := w.hub.Next(t.Context(), "one", 0, patience)
	require.NoError(t, err)
	require.Len(t, heard, 1)
	assert.Equal(t, refusal.NotFound, fault.From(w.hub.Unsubscribe(t.Context(), "one", "b")).Reason)
	ended := make(chan error, 1)
	go func() {
		_, err := w.hub.Next(context.Background(), "one", heard[0].No, patience)
		ended <- err
	}()
	require.NoError(t, w.hub.Unsubscribe(t.Context(), "one", "a"))
	assert.True(t, fault.Has(<-ended, fault.NotFound))
	assert.Zero(t, w.hub.Count())
}

// The number of subscriptions of a session is limited.
func TestSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.Config{})
	w.open(t, "s")
	for n := range firebase.MaxSubscriptions {
		w.subscribe(t, "s", strconv.Itoa(n), "p/"+strconv.Itoa(n), firebase.Value)
	}
	_, err := w.hub.Subscribe(t.Context(), "s", firebase.Subscription{ID: "more", Database: firebase.Realtime, Path: "p", Events: firebase.Value})
	assert.Equal(t, refusal.QuotaExceeded, fault.From(err).Reason)
	require.NoError(t, w.hub.Unsubscribe(t.Context(), "s", "0"))
	w.subscribe(t, "s", "more", "p", firebase.Value)
}
