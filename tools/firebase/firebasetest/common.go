package firebasetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// docPath is a path that is a document in Firestore and an ordinary node in the Realtime Database.
const docPath = "rooms/a"

// common runs the tests that apply to both databases.
func (k Kit) common(t *testing.T) {
	t.Helper()
	t.Run("paths", k.paths)
	t.Run("condition", k.conditions)
	t.Run("concurrent transactions", k.transactions)
	t.Run("data is not shared", k.sharesNothing)
	t.Run("ended context", k.endedContext)
	t.Run("order of events", k.ordered)
	t.Run("slow reader", k.slowReader)
	t.Run("watch ends with its context", k.watchEnds)
}

func counter(n int) map[string]any { return map[string]any{"n": float64(n)} }

// count returns the n of counter(n), or 0 for null.
func count(data any) int {
	fields, _ := data.(map[string]any)
	n, _ := fields["n"].(float64)
	return int(n)
}

// setCounter writes counter(n). The emulator of Firestore fails a write now and then because a reader that it would tell has
// gone; such a write is repeated.
func setCounter(tb testing.TB, b firebase.Backend, n int) {
	tb.Helper()
	write := firebase.Write{Operation: firebase.Set, Data: counter(n)}
	_, err := b.Write(tb.Context(), docPath, write)
	if err != nil && strings.Contains(err.Error(), "call already cancelled") {
		_, err = b.Write(tb.Context(), docPath, write)
	}
	require.NoError(tb, err)
}

// S3-026: slashes are only permitted between segments, and no path leads upwards.
func (k Kit) paths(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	for _, path := range []string{
		"/", "/rooms/a", "rooms/a/", "rooms//a", "..", "rooms/..", "../rooms/a", "rooms/../a/b", ".", "rooms/.",
		"rooms/\xff", "rooms/" + strings.Repeat("long", 400), strings.Repeat("a/", 250) + "a",
	} {
		_, err := b.Read(t.Context(), path, firebase.Query{})
		requireReason(t, err, refusal.InvalidPath)
		_, err = b.Write(t.Context(), path, firebase.Write{Operation: firebase.Set, Data: counter(1)})
		requireReason(t, err, refusal.InvalidPath)
		_, err = b.Watch(t.Context(), path, firebase.Value)
		requireReason(t, err, refusal.InvalidPath)
	}
	for _, path := range []string{docPath, "rooms/-A_z-09"} {
		apply(t, b, set(path, `{"n":1}`))
		requireData(t, b, path, `{"n":1}`)
	}
}

// A conditional write succeeds only while the path has that version, including the version of a missing value.
func (k Kit) conditions(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	write := func(op firebase.Operation, n int, version firebase.Version) error {
		_, err := b.Write(t.Context(), docPath, firebase.Write{Operation: op, Data: counter(n), If: version})
		return err
	}
	nothing := read(t, b, docPath).Version
	require.NotEmpty(t, nothing)
	require.NoError(t, write(firebase.Set, 1, nothing))
	requireReason(t, write(firebase.Set, 2, nothing), refusal.Conflict)
	one := read(t, b, docPath).Version
	assert.NotEqual(t, nothing, one)
	apply(t, b, set("rooms/b", `{"n":5}`))
	assert.Equal(t, one, read(t, b, docPath).Version, "a write elsewhere")
	require.NoError(t, write(firebase.Update, 2, one))
	requireReason(t, write(firebase.Update, 3, one), refusal.Conflict)
	requireReason(t, write(firebase.Delete, 0, one), refusal.Conflict)
	requireData(t, b, docPath, `{"n":2}`)
	require.NoError(t, write(firebase.Delete, 0, read(t, b, docPath).Version))
	requireData(t, b, docPath, `null`)
	_, err := b.Write(t.Context(), "rooms", firebase.Write{Operation: firebase.Push, Data: counter(1), If: nothing})
	requireReason(t, err, refusal.ValidationError)
}

// S3-033: of 100 concurrent increments by read-modify-write, none is lost: each one either takes effect or returns an error.
func (k Kit) transactions(t *testing.T) {
	t.Parallel()
	const writers = 100
	b := k.Open(t)
	increment := func(s firebase.Snapshot) (firebase.Write, error) {
		return firebase.Write{Operation: firebase.Set, Data: counter(count(s.Data) + 1)}, nil
	}
	errs := make([]error, writers)
	var running sync.WaitGroup
	for i := range writers {
		running.Go(func() { _, errs[i] = firebase.Transact(t.Context(), b, docPath, increment) })
	}
	running.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
			continue
		}
		requireReason(t, err, refusal.Conflict)
	}
	require.Positive(t, done)
	assert.Equal(t, done, count(read(t, b, docPath).Data))
	t.Logf("%d of %d transactions succeeded", done, writers)
}

func (k Kit) sharesNothing(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	data := map[string]any{"n": 1.0, "in": map[string]any{"list": []any{"x"}}}
	_, err := b.Write(t.Context(), docPath, firebase.Write{Operation: firebase.Set, Data: data})
	require.NoError(t, err)
	modify(data)
	got := read(t, b, docPath).Data
	assert.Equal(t, parse(t, `{"n":1,"in":{"list":["x"]}}`), got)
	modify(got)
	requireData(t, b, docPath, `{"n":1,"in":{"list":["x"]}}`)
}

// modify modifies decoded JSON in place, at every depth.
func modify(data any) {
	switch v := data.(type) {
	case map[string]any:
		for _, value := range v {
			modify(value)
		}
		v["more"] = "spoiled"
	case []any:
		for i := range v {
			modify(v[i])
			v[i] = "spoiled"
		}
	default:
	}
}

func (k Kit) endedContext(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Read(ctx, docPath, firebase.Query{})
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	_, err = b.Write(ctx, docPath, firebase.Write{Operation: firebase.Set, Data: counter(1)})
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	_, err = b.Watch(ctx, docPath, firebase.Value)
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	requireData(t, b, docPath, `null`)
}

// S3-043: events arrive in the order of the writes, and there is no gap between the initial data and the first event.
func (k Kit) ordered(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	setCounter(t, b, 0)
	var writing sync.WaitGroup
	started := make(chan struct{})
	last := min(k.Backlog, 100)
	writing.Go(func() {
		for n := range last {
			if _, err := b.Write(t.Context(), docPath, firebase.Write{Operation: firebase.Set, Data: counter(n + 1)}); !assert.NoError(t, err) {
				return
			}
			if n == 0 {
				close(started)
			}
		}
	})
	<-started
	w := listen(t, b, docPath, firebase.Value)
	seen := w.initial.Data
	for n := count(seen); n < last; n = count(seen) {
		e := w.event()
		assert.Equal(t, seen, e.Previous)
		if k.Joins {
			require.Greater(t, count(e.Data), n)
		} else {
			require.Equal(t, any(counter(n+1)), e.Data)
		}
		seen = e.Data
	}
	writing.Wait()
}

// S3-045: a reader that does not read uses bounded memory and does not block other readers. It gets an error in place of the
// events that it has lost.
func (k Kit) slowReader(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	slow, quick := listen(t, b, docPath, firebase.Value), listen(t, b, docPath, firebase.Value)
	writes := 2*k.Backlog + 2
	for n := range writes {
		setCounter(t, b, n+1)
		assert.Equal(t, any(counter(n+1)), quick.event().Data)
	}
	n := 0
	for {
		e, err, ok := slow.next()
		require.True(t, ok, "the events ended without an error")
		if err != nil {
			requireReason(t, err, refusal.QuotaExceeded)
			break
		}
		n++
		assert.Equal(t, any(counter(n)), e.Data, "no gap before the end")
	}
	assert.LessOrEqual(t, n, k.Backlog+1)
	_, _, ok := slow.next()
	assert.False(t, ok, "nothing follows the error")
}

func (k Kit) watchEnds(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := b.Watch(ctx, docPath, firebase.Value)
	require.NoError(t, err)
	done := make(chan struct{})
	got := make(chan firebase.Event, 1)
	go func() {
		defer close(done)
		for e, err := range w.Events {
			assert.NoError(t, err)
			got <- e
		}
	}()
	setCounter(t, b, 1)
	<-got
	cancel()
	<-done
	setCounter(t, b, 2)
	assert.Empty(t, got)
}
