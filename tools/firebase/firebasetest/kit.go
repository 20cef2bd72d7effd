// Package firebasetest contains the conformance tests for every backend of the Firebase tools: one kit for the
// Realtime Database and one for Firestore. Their tables record the observed behaviour of the real servers.
package firebasetest

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// patience is how long a test waits for an event before it fails.
const patience = 2 * time.Minute

// Kit configures the tests of a backend.
type Kit struct {
	// Open returns an empty database that exists until the end of the test.
	Open func(tb testing.TB) firebase.Backend
	// Reopen closes and reopens a database like a restart of its process, and returns the reopened database. It is nil
	// for databases that are not persistent.
	Reopen func(tb testing.TB, b firebase.Backend) firebase.Backend
	// Backlog is how many events a watcher of the database may be behind before its watch ends.
	Backlog int
	// Joins is set if a watch may report several writes that follow each other as one change.
	Joins bool
}

// Realtime tests a Realtime Database.
func Realtime(t *testing.T, kit Kit) {
	t.Helper()
	t.Run("write", kit.realtimeWrites)
	t.Run("refused write", kit.realtimeRefusals)
	t.Run("push", kit.realtimePush)
	t.Run("query", kit.realtimeQueries)
	t.Run("query of a scalar", kit.realtimeQueryOfScalar)
	t.Run("refused query", kit.realtimeQueryRefusals)
	t.Run("shallow", kit.realtimeShallow)
	t.Run("events", kit.realtimeEvents)
	if kit.Reopen != nil {
		t.Run("restart", kit.realtimeRestart)
	}
	t.Run("refused events", func(t *testing.T) {
		t.Parallel()
		kit.refusedEvents(t, "rooms", firebase.DocumentAdded, firebase.DocumentModified, firebase.DocumentDeleted, "no_event", "")
	})
	kit.common(t)
}

// Firestore tests a Firestore.
func Firestore(t *testing.T, kit Kit) {
	t.Helper()
	t.Run("write", kit.firestoreWrites)
	t.Run("refused write", kit.firestoreRefusals)
	t.Run("merge is for set", kit.firestoreMergeIsForSet)
	t.Run("push", kit.firestorePush)
	t.Run("query", kit.firestoreQueries)
	t.Run("refused query", kit.firestoreQueryRefusals)
	t.Run("events", kit.firestoreEvents)
	if kit.Reopen != nil {
		t.Run("restart", kit.firestoreRestart)
	}
	t.Run("refused events", func(t *testing.T) {
		t.Parallel()
		kit.refusedEvents(t, "rooms", firebase.Value, firebase.ChildAdded, firebase.ChildChanged, firebase.ChildRemoved, "no_event")
		kit.refusedEvents(t, "rooms/a", firebase.ChildAdded, firebase.ChildChanged, firebase.ChildRemoved, "")
	})
	kit.common(t)
}

// step is one write of a table; data is JSON.
type step struct {
	op   firebase.Operation
	path string
	data string
}

func set(path, data string) step    { return step{firebase.Set, path, data} }
func update(path, data string) step { return step{firebase.Update, path, data} }
func remove(path string) step       { return step{firebase.Delete, path, "null"} }

// merge stands for a Set with Merge in the tables.
const merge firebase.Operation = "merge"

func (s step) write(tb testing.TB) firebase.Write {
	tb.Helper()
	if s.op == merge {
		return firebase.Write{Operation: firebase.Set, Merge: true, Data: parse(tb, s.data)}
	}
	return firebase.Write{Operation: s.op, Data: parse(tb, s.data)}
}

// apply executes writes that must succeed.
func apply(tb testing.TB, b firebase.Backend, steps ...step) {
	tb.Helper()
	for _, s := range steps {
		_, err := b.Write(tb.Context(), s.path, s.write(tb))
		require.NoError(tb, err, "%s %s %s", s.op, s.path, s.data)
	}
}

// read returns the snapshot of a path.
func read(tb testing.TB, b firebase.Backend, path string) firebase.Snapshot {
	tb.Helper()
	s, err := b.Read(tb.Context(), path, firebase.Query{})
	require.NoError(tb, err)
	return s
}

// requireData fails the test unless the data at the path equals the JSON; null means no data.
func requireData(tb testing.TB, b firebase.Backend, path, want string) {
	tb.Helper()
	s := read(tb, b, path)
	assert.Equal(tb, parse(tb, want), s.Data, "at %s", path)
	assert.Equal(tb, want != "null", s.Exists, "at %s", path)
}

// requireReason fails the test unless err has the reason and its code.
func requireReason(tb testing.TB, err error, reason string) {
	tb.Helper()
	require.Error(tb, err)
	assert.Equal(tb, reason, fault.From(err).Reason, "%v", err)
	assert.Equal(tb, refusal.Code(reason), fault.CodeOf(err))
	assert.NotEmpty(tb, fault.From(err).Message)
}

func parse(tb testing.TB, text string) (value any) {
	tb.Helper()
	require.NoError(tb, json.Unmarshal([]byte(text), &value), "%s", text)
	return value
}

func keys(children []firebase.Child) []string {
	var all []string
	for _, c := range children {
		all = append(all, c.Key)
	}
	return all
}

// watch is a running watch of a test.
type watch struct {
	tb      testing.TB
	initial firebase.Snapshot
	next    func() (firebase.Event, error, bool)
}

// listen starts a watch that ends when the test ends.
func listen(tb testing.TB, b firebase.Backend, path string, events firebase.EventType) *watch {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	w, err := b.Watch(ctx, path, events)
	require.NoError(tb, err)
	next, stop := iter.Pull2(w.Events)
	tb.Cleanup(stop)
	return &watch{tb: tb, initial: w.Initial, next: next}
}

// event returns the next event.
func (w *watch) event() firebase.Event {
	w.tb.Helper()
	e, err, ok := w.next()
	require.NoError(w.tb, err)
	require.True(w.tb, ok, "the events ended")
	return e
}

// event is an event of a table; data and previous are JSON.
type event struct {
	key, data, previous string
}

// expect fails the test unless the next events are the given ones.
func (w *watch) expect(events firebase.EventType, all ...event) {
	w.tb.Helper()
	for _, want := range all {
		got := w.event()
		assert.Equal(w.tb, events, got.Type)
		assert.Equal(w.tb, want.key, got.Key)
		assert.Equal(w.tb, parse(w.tb, want.data), got.Data)
		assert.Equal(w.tb, parse(w.tb, want.previous), got.Previous)
		assert.False(w.tb, got.At.IsZero())
	}
}

func (k Kit) refusedEvents(t *testing.T, path string, all ...firebase.EventType) {
	t.Helper()
	b := k.Open(t)
	for _, events := range all {
		_, err := b.Watch(t.Context(), path, events)
		requireReason(t, err, refusal.ValidationError)
	}
}
