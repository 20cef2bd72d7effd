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

// Watch implements firebase.Backend. The value of a collection cannot be watched, its documents can. A
// connection that breaks is made again; what changed meanwhile comes as the events of one write.
func (c *Client) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	if err := watchable(at, events); err != nil {
		return firebase.Watching{}, err
	}
	// The library goes on trying whatever the reason; a read says at once what is wrong.
	if _, err := c.Read(ctx, path, firebase.Query{Limit: 1}); err != nil {
		return firebase.Watching{}, err
	}
	running, stop := context.WithCancel(ctx)
	w := &watcher{client: c, wants: events, queue: backlog.New(c.cfg.Backlog, 0), first: make(chan initialState, 1)}
	if at.IsDocument() {
		w.next = w.ofDocument(running, at)
	} else {
		w.next = w.ofCollection(running, at)
	}
	go func() {
		defer stop() // also of the stream, when nobody reads the events to their end
		w.run(running)
	}()
	initial, err := w.initial(ctx)
	if err != nil {
		stop()
		return firebase.Watching{}, err
	}
	return firebase.Watching{Initial: initial, Events: w.queue.Events(ctx, stop)}, nil
}

func watchable(at document.Path, events firebase.EventType) error {
	switch events {
	case firebase.DocumentAdded, firebase.DocumentModified, firebase.DocumentDeleted:
		return nil
	case firebase.Value:
		if at.IsDocument() {
			return nil
		}
		return noSuchEvents(events, "a collection")
	default:
		return noSuchEvents(events, "Firestore")
	}
}

func noSuchEvents(events firebase.EventType, where string) error {
	return refusal.New(refusal.ValidationError, "%s has no events %q", where, events).WithField("eventType")
}

// watcher is a running watch.
type watcher struct {
	client *Client
	wants  firebase.EventType
	queue  *backlog.Queue
	// next waits for another state of what is watched. The first one is that at the beginning.
	next  func() (state, error)
	first chan initialState
	size  int // of what is watched, in bytes
}

// initialState is how a watch begins.
type initialState struct {
	snapshot firebase.Snapshot
	err      error
}

// state is what a watch hears at one time.
type state struct {
	snapshot func() firebase.Snapshot
	changes  []change
	at       time.Time
}

// change is what became of a document. Fields are nil where it does not exist.
type change struct {
	id          string
	before, now document.Fields
	at          time.Time
}

// initial waits for the state at the beginning.
func (w *watcher) initial(ctx context.Context) (firebase.Snapshot, error) {
	late := time.NewTimer(w.client.cfg.Call)
	defer late.Stop()
	select {
	case first := <-w.first:
		return first.snapshot, first.err
	case <-ctx.Done():
		return firebase.Snapshot{}, ctx.Err()
	case <-late.C:
		return firebase.Snapshot{}, refusal.New(refusal.ConnectionError, "there was no answer within %s", w.client.cfg.Call)
	}
}

// run passes on what changes, until the context or the queue ends.
func (w *watcher) run(ctx context.Context) {
	state, err := w.next()
	if err == nil {
		err = w.grow(state.changes)
	}
	if err != nil {
		w.first <- initialState{err: w.client.ended(ctx, err)}
		return
	}
	w.first <- initialState{snapshot: state.snapshot()}
	for {
		state, err := w.next()
		if err == nil {
			err = w.grow(state.changes)
		}
		switch {
		case ctx.Err() != nil:
			w.queue.End(nil)
			return
		case err != nil:
			w.queue.End(w.client.ended(ctx, err))
			return
		case !w.tell(state):
			return
		}
	}
}

// ended tells why a watch ends.
func (c *Client) ended(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return c.unread(ctx, err)
}

// grow counts the bytes of what is watched.
func (w *watcher) grow(changes []change) error {
	for _, c := range changes {
		w.size += c.now.Size(nil) - c.before.Size(nil)
	}
	if w.size > w.client.cfg.MaxAnswer {
		return tooLarge(w.client.cfg.MaxAnswer)
	}
	return nil
}

// tell queues the events of a state that the reader wants. It reports false when the queue has ended.
func (w *watcher) tell(s state) bool {
	for _, c := range s.changes {
		if w.wants != firebase.Value && w.wants != c.kind() {
			continue
		}
		if !w.queue.Add(c.event(w.wants), c.before.Size(nil)+c.now.Size(nil)) {
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

func (c change) event(wanted firebase.EventType) func() firebase.Event {
	return func() firebase.Event {
		e := firebase.Event{Type: wanted, Key: c.id, Data: value(c.now), Previous: value(c.before), At: c.at}
		switch wanted {
		case firebase.DocumentDeleted:
			e.Data = value(c.before)
		case firebase.Value:
			e.Key = ""
		default:
		}
		return e
	}
}

// ofDocument listens to a document.
func (w *watcher) ofDocument(ctx context.Context, at document.Path) func() (state, error) {
	snapshots := w.client.client.Doc(at.String()).Snapshots(ctx)
	var before document.Fields
	return func() (state, error) {
		d, err := snapshots.Next()
		if err != nil {
			snapshots.Stop()
			return state{}, err
		}
		c := change{id: at.ID(), before: before, now: contents(d), at: d.ReadTime}
		before = c.now
		s := state{snapshot: func() firebase.Snapshot { return w.client.one(d) }}
		if c.before != nil || c.now != nil {
			s.changes = []change{c}
		}
		return s, nil
	}
}

// ofCollection listens to the documents of a collection.
func (w *watcher) ofCollection(ctx context.Context, at document.Path) func() (state, error) {
	snapshots := w.client.client.Collection(at.String()).Snapshots(ctx)
	return func() (state, error) {
		q, err := snapshots.Next()
		if err != nil {
			snapshots.Stop()
			return state{}, err
		}
		s := state{at: q.ReadTime}
		for _, d := range q.Changes {
			s.changes = append(s.changes, changed(d, q.ReadTime))
		}
		s.snapshot = func() firebase.Snapshot {
			var found []document.Document
			for _, c := range s.changes { // the first state has all documents as added
				found = append(found, document.Document{ID: c.id, Fields: c.now})
			}
			return w.client.many(found, len(found) > 0)
		}
		return s, nil
	}
}

func changed(d firestore.DocumentChange, at time.Time) change {
	c := change{id: d.Doc.Ref.ID, at: at}
	switch d.Kind {
	case firestore.DocumentAdded:
		c.now = contents(d.Doc)
	case firestore.DocumentRemoved:
		c.before = contents(d.Doc)
	default:
		c.before, c.now = contents(d.OldDoc), contents(d.Doc)
	}
	return c
}
