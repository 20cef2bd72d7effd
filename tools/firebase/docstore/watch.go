package docstore

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Watch implements firebase.Backend. The value of a collection cannot be watched, only its documents. A broken
// connection is re-established; changes in between are reported as the events of a single write.
func (c *Client) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	if err := checkEvents(at, events); err != nil {
		return firebase.Watching{}, err
	}
	// The library retries after any error; a read reports an error at once.
	if _, err := c.Read(ctx, path, firebase.Query{Limit: 1}); err != nil {
		return firebase.Watching{}, err
	}
	running, stop := context.WithCancel(ctx)
	w := &watcher{client: c, events: events, queue: backlog.New(c.cfg.Backlog, 0), first: make(chan initialState, 1)}
	if at.IsDocument() {
		w.next = w.watchDocument(running, at)
	} else {
		w.next = w.watchCollection(running, at)
	}
	go func() {
		defer stop() // also ends the stream if the events are not read to their end
		w.run(running)
	}()
	initial, err := w.initial(ctx)
	if err != nil {
		stop()
		return firebase.Watching{}, err
	}
	return firebase.Watching{Initial: initial, Events: w.queue.Events(ctx, stop)}, nil
}

// checkEvents returns VALIDATION_ERROR for a type of events that the path does not support.
func checkEvents(at document.Path, events firebase.EventType) error {
	switch events {
	case firebase.DocumentAdded, firebase.DocumentModified, firebase.DocumentDeleted:
		return nil
	case firebase.Value:
		if at.IsDocument() {
			return nil
		}
		return unsupportedEvents(events, "a collection")
	default:
		return unsupportedEvents(events, "Firestore")
	}
}

func unsupportedEvents(events firebase.EventType, where string) error {
	return refusal.New(refusal.ValidationError, "%s has no events %q", where, events).WithField("eventType")
}

// watcher is a running watch.
type watcher struct {
	client *Client
	events firebase.EventType
	queue  *backlog.Queue
	// next waits for the next state of the watched data. The first one is the initial state.
	next  func() (state, error)
	first chan initialState
	size  int // size of the watched data in bytes
}

// initialState is the result of starting a watch.
type initialState struct {
	snapshot firebase.Snapshot
	err      error
}

// state is one update of the watched data.
type state struct {
	snapshot func() firebase.Snapshot
	changes  []change
	at       time.Time
}

// change is the change of one document. Fields are nil where it does not exist.
type change struct {
	id          string
	before, now document.Fields
	at          time.Time
}

// initial waits for the initial state.
func (w *watcher) initial(ctx context.Context) (firebase.Snapshot, error) {
	timer := time.NewTimer(w.client.cfg.Call)
	defer timer.Stop()
	select {
	case first := <-w.first:
		return first.snapshot, first.err
	case <-ctx.Done():
		return firebase.Snapshot{}, ctx.Err()
	case <-timer.C:
		return firebase.Snapshot{}, refusal.New(refusal.ConnectionError, "there was no answer within %s", w.client.cfg.Call)
	}
}

// run queues the events of changes, until the context or the queue ends.
func (w *watcher) run(ctx context.Context) {
	state, err := w.next()
	if err == nil {
		err = w.addSize(state.changes)
	}
	if err != nil {
		w.first <- initialState{err: w.client.watchError(ctx, err)}
		return
	}
	w.first <- initialState{snapshot: state.snapshot()}
	for {
		state, err := w.next()
		if err == nil {
			err = w.addSize(state.changes)
		}
		switch {
		case ctx.Err() != nil:
			w.queue.End(nil)
			return
		case err != nil:
			w.queue.End(w.client.watchError(ctx, err))
			return
		case !w.emit(state):
			return
		}
	}
}

// watchError returns the error that ends a watch.
func (c *Client) watchError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return c.readError(ctx, err)
}

// addSize updates the size of the watched data. It returns QUOTA_EXCEEDED beyond the limit.
func (w *watcher) addSize(changes []change) error {
	for _, c := range changes {
		w.size += c.now.Size(nil) - c.before.Size(nil)
	}
	if w.size > w.client.cfg.MaxAnswer {
		return tooLarge(w.client.cfg.MaxAnswer)
	}
	return nil
}

// emit queues the events of a state that match the watched type. It returns false when the queue has ended.
func (w *watcher) emit(s state) bool {
	for _, c := range s.changes {
		if w.events != firebase.Value && w.events != c.kind() {
			continue
		}
		if !w.queue.Add(c.event(w.events), c.before.Size(nil)+c.now.Size(nil)) {
			return false
		}
	}
	return true
}

func (c change) kind() firebase.EventType {
	switch {
	case c.before == nil:
		return firebase.DocumentAdded
	case c.now == nil:
		return firebase.DocumentDeleted
	default:
		return firebase.DocumentModified
	}
}

// event returns a function that builds the event of a change.
func (c change) event(kind firebase.EventType) func() firebase.Event {
	return func() firebase.Event {
		e := firebase.Event{Type: kind, Key: c.id, Data: dataOf(c.now), Previous: dataOf(c.before), At: c.at}
		switch kind {
		case firebase.DocumentDeleted:
			e.Data = dataOf(c.before)
		case firebase.Value:
			e.Key = ""
		default:
		}
		return e
	}
}

// watchDocument listens to a document.
func (w *watcher) watchDocument(ctx context.Context, at document.Path) func() (state, error) {
	snapshots := w.client.client.Doc(at.String()).Snapshots(ctx)
	var before document.Fields
	return func() (state, error) {
		d, err := snapshots.Next()
		if err != nil {
			snapshots.Stop()
			return state{}, err
		}
		c := change{id: at.ID(), before: before, now: fieldsOf(d), at: d.ReadTime}
		before = c.now
		s := state{snapshot: func() firebase.Snapshot { return w.client.documentSnapshot(d) }}
		if c.before != nil || c.now != nil {
			s.changes = []change{c}
		}
		return s, nil
	}
}

// watchCollection listens to the documents of a collection.
func (w *watcher) watchCollection(ctx context.Context, at document.Path) func() (state, error) {
	snapshots := w.client.client.Collection(at.String()).Snapshots(ctx)
	return func() (state, error) {
		q, err := snapshots.Next()
		if err != nil {
			snapshots.Stop()
			return state{}, err
		}
		s := state{at: q.ReadTime}
		for _, d := range q.Changes {
			s.changes = append(s.changes, newChange(d, q.ReadTime))
		}
		s.snapshot = func() firebase.Snapshot {
			var found []document.Document
			for _, c := range s.changes { // the first state reports all documents as added
				found = append(found, document.Document{ID: c.id, Fields: c.now})
			}
			return w.client.collectionSnapshot(found, len(found) > 0)
		}
		return s, nil
	}
}

// newChange converts a change of the library.
func newChange(d firestore.DocumentChange, at time.Time) change {
	c := change{id: d.Doc.Ref.ID, at: at}
	switch d.Kind {
	case firestore.DocumentAdded:
		c.now = fieldsOf(d.Doc)
	case firestore.DocumentRemoved:
		c.before = fieldsOf(d.Doc)
	default:
		c.before, c.now = fieldsOf(d.OldDoc), fieldsOf(d.Doc)
	}
	return c
}
