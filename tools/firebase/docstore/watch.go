package docstore

import (
	"context"
	"errors"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Watch implements firebase.Backend. It returns VALIDATION_ERROR for the type Value at a collection: only the documents of
// a collection can be watched. When the connection breaks, the watch resumes, and reports the changes in between as the
// events of a single write.
func (c *Client) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	if err := checkEvents(at, events); err != nil {
		return firebase.Watching{}, err
	}
	// The listener retries after most errors. A read before reports such an error to the caller.
	if _, err := c.Read(ctx, path, firebase.Query{Limit: 1}); err != nil {
		return firebase.Watching{}, err
	}
	running, stop := context.WithCancel(ctx)
	w := &watcher{client: c, events: events, at: at, queue: backlog.New(c.cfg.Backlog, 0), first: make(chan initialState, 1)}
	w.listener = newListener(c, at)
	go func() {
		defer stop() // also ends the call if the events are not read to their end
		defer w.listener.stop()
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
	at     document.Path
	queue  *backlog.Queue
	// listener waits for the next state of the watched data. The first state is sent to first.
	listener *listener
	first    chan initialState
	size     int // size of the watched data in bytes
}

// initialState is the result of starting a watch.
type initialState struct {
	snapshot firebase.Snapshot
	err      error
}

// change is the change of one document. before or now is nil if the document does not exist then.
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
	changes, err := w.next(ctx)
	if err != nil {
		w.first <- initialState{err: w.client.watchError(ctx, err)}
		return
	}
	w.first <- initialState{snapshot: w.snapshot(changes)}
	for {
		changes, err := w.next(ctx)
		switch {
		case ctx.Err() != nil:
			w.queue.End(nil)
			return
		case err != nil:
			w.queue.End(w.client.watchError(ctx, err))
			return
		case !w.emit(changes):
			return
		}
	}
}

// next waits for the next changes, and counts their size.
func (w *watcher) next(ctx context.Context) ([]change, error) {
	changes, err := w.listener.next(ctx)
	if err != nil {
		return nil, err
	}
	return changes, w.addSize(changes)
}

// snapshot returns the initial state, whose changes report all documents as added.
func (w *watcher) snapshot(changes []change) firebase.Snapshot {
	if w.at.IsDocument() {
		return w.client.documentSnapshot(w.listener.documents[w.client.documentName(w.at)])
	}
	var found []document.Document
	for _, c := range changes {
		found = append(found, document.Document{ID: c.id, Fields: c.now})
	}
	return w.client.collectionSnapshot(found, len(found) > 0)
}

// watchError returns the error that ends a watch.
func (c *Client) watchError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return c.readError(ctx, err)
}

// addSize updates the size of the watched data. It returns QUOTA_EXCEEDED if the size exceeds Config.MaxAnswer.
func (w *watcher) addSize(changes []change) error {
	for _, c := range changes {
		w.size += c.now.Size(nil) - c.before.Size(nil)
	}
	if w.size > w.client.cfg.MaxAnswer {
		return tooLarge(w.client.cfg.MaxAnswer)
	}
	return nil
}

// emit queues the events of changes that match the watched type. It returns false when the queue has ended.
func (w *watcher) emit(changes []change) bool {
	for _, c := range changes {
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
