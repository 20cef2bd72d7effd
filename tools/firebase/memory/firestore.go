package memory

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Firestore is a Firestore database.
type Firestore struct {
	cfg Config

	mu          sync.Mutex                   // guards what follows
	collections map[string]map[string]stored // by path, then by id; none is empty
	revision    uint64
	keys        tree.Keys
	feeds       audience
}

// stored is a document. One that does not exist has no fields and revision 0.
type stored struct {
	fields   document.Fields
	revision uint64
}

func (s stored) exists() bool { return s.revision != 0 }

func (s stored) version() firebase.Version {
	return firebase.Version(strconv.FormatUint(s.revision, 10))
}

// value returns the fields as JSON, nil if there is no document.
func (s stored) value() any {
	if !s.exists() {
		return nil
	}
	return s.fields.Value()
}

var _ firebase.Backend = (*Firestore)(nil)

// NewFirestore returns an empty Firestore database.
func NewFirestore(cfg Config) *Firestore {
	return &Firestore{cfg: cfg.withDefaults(), collections: map[string]map[string]stored{}, feeds: audience{}}
}

// Read implements firebase.Backend. A query has no meaning for a document and is passed over.
func (f *Firestore) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	if q.Shallow {
		return firebase.Snapshot{}, refusal.New(refusal.ValidationError, "shallow is for the Realtime Database").WithField("shallow")
	}
	if err := ctx.Err(); err != nil {
		return firebase.Snapshot{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(at, q)
}

// read returns what is at a path. The lock is held.
func (f *Firestore) read(at document.Path, q firebase.Query) (firebase.Snapshot, error) {
	if at.IsDocument() {
		d := f.document(at)
		return firebase.Snapshot{Exists: d.exists(), Data: d.value(), Version: d.version(), At: f.cfg.Now()}, nil
	}
	var all []document.Document
	for id, d := range f.collections[at.String()] {
		all = append(all, document.Document{ID: id, Fields: d.fields})
	}
	found, err := document.Select(all, document.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return collection(found, len(all) > 0, f.cfg.Now()), nil
}

func collection(found []document.Document, exists bool, at time.Time) firebase.Snapshot {
	s := firebase.Snapshot{Exists: exists, At: at}
	byID := make(map[string]any, len(found))
	for _, d := range found {
		byID[d.ID] = d.Fields.Value()
		s.Children = append(s.Children, firebase.Child{Key: d.ID, Data: d.Fields.Value()})
	}
	if exists {
		s.Data = byID
	}
	return s
}

func (f *Firestore) document(at document.Path) stored {
	return f.collections[at.Parent().String()][at.ID()]
}

// Write implements firebase.Backend.
func (f *Firestore) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := document.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := checkFirestore(to, w); err != nil {
		return firebase.Written{}, err
	}
	if err := ctx.Err(); err != nil {
		return firebase.Written{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	written := firebase.Written{At: f.cfg.Now()}
	if w.Operation == firebase.Push {
		written.Key = nextKey(&f.keys, written.At)
		to = to.Child(written.Key)
	}
	old := f.document(to)
	if w.If != "" && w.If != old.version() {
		return firebase.Written{}, changedMeanwhile()
	}
	fields, err := content(old, to, w)
	if err != nil {
		return firebase.Written{}, err
	}
	f.put(to, old, fields, written.At)
	return written, nil
}

// checkFirestore refuses what no document or collection can have done to it.
func checkFirestore(to document.Path, w firebase.Write) error {
	switch w.Operation {
	case firebase.Set, firebase.Update, firebase.Delete:
		if !to.IsDocument() {
			return refusal.New(refusal.InvalidPath, "the path is that of a collection, %s takes a document", w.Operation).WithField("path")
		}
	case firebase.Push:
		if to.IsDocument() {
			return refusal.New(refusal.InvalidPath, "the path is that of a document, push takes a collection").WithField("path")
		}
		if w.If != "" {
			return unconditionalPush()
		}
	default:
		return noSuchOperation(w.Operation)
	}
	if w.Merge && w.Operation != firebase.Set {
		return refusal.New(refusal.ValidationError, "merge is for set").WithField("merge")
	}
	return nil
}

// content returns the fields after a write, nil after a deletion.
func content(old stored, to document.Path, w firebase.Write) (fields document.Fields, err error) {
	switch {
	case w.Operation == firebase.Delete:
		return nil, nil
	case w.Operation == firebase.Update && !old.exists():
		return nil, refusal.New(refusal.NotFound, "there is no document %q to update", to).WithField("path")
	case w.Operation == firebase.Update:
		fields, err = old.fields.Update(w.Data)
	case w.Merge:
		fields, err = old.fields.Merge(w.Data)
	default:
		fields, err = document.New(w.Data)
	}
	if err != nil {
		return nil, err
	}
	return fields, fields.CheckSize(to)
}

// put stores fields, removes the document if they are nil, and tells the watchers unless nothing changed.
func (f *Firestore) put(to document.Path, old stored, fields document.Fields, at time.Time) {
	now := stored{fields: fields}
	in, id := to.Parent().String(), to.ID()
	switch {
	case fields != nil && old.exists() && old.fields.Equal(fields), fields == nil && !old.exists():
		return
	case fields == nil:
		delete(f.collections[in], id)
		if len(f.collections[in]) == 0 {
			delete(f.collections, in)
		}
	default:
		f.revision++
		now.revision = f.revision
		if f.collections[in] == nil {
			f.collections[in] = map[string]stored{}
		}
		f.collections[in][id] = now
	}
	f.publish(to, old, now, at)
}

// publish tells the watchers of a document and of its collection.
func (f *Firestore) publish(to document.Path, old, now stored, at time.Time) {
	what := kind(old, now)
	size := old.fields.Size(to) + now.fields.Size(to)
	for _, path := range []string{to.String(), to.Parent().String()} {
		for watcher := range f.feeds[path] {
			if watcher.wants != what && watcher.wants != firebase.Value {
				continue
			}
			if !watcher.add(pending{event: happened(watcher.wants, to.ID(), old, now, at), size: size}) {
				f.feeds.remove(path, watcher)
			}
		}
	}
}

func kind(old, now stored) firebase.EventType {
	switch {
	case !old.exists():
		return firebase.DocumentAdded
	case !now.exists():
		return firebase.DocumentDeleted
	default:
		return firebase.DocumentModified
	}
}

func happened(what firebase.EventType, id string, old, now stored, at time.Time) func() firebase.Event {
	return func() firebase.Event {
		e := firebase.Event{Type: what, Key: id, Data: now.value(), Previous: old.value(), At: at}
		switch what {
		case firebase.DocumentDeleted:
			e.Data = old.value()
		case firebase.Value:
			e.Key = ""
		default:
		}
		return e
	}
}

// Watch implements firebase.Backend. The value of a collection cannot be watched, its documents can.
func (f *Firestore) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	switch events {
	case firebase.DocumentAdded, firebase.DocumentModified, firebase.DocumentDeleted:
	case firebase.Value:
		if !at.IsDocument() {
			return firebase.Watching{}, noSuchEvents(events, "a collection")
		}
	default:
		return firebase.Watching{}, noSuchEvents(events, "Firestore")
	}
	if err := ctx.Err(); err != nil {
		return firebase.Watching{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	initial, err := f.read(at, firebase.Query{})
	if err != nil {
		return firebase.Watching{}, err
	}
	watcher := newFeed(events, f.cfg.Backlog)
	f.feeds.add(path, watcher)
	forget := func() { f.forget(path, watcher) }
	context.AfterFunc(ctx, forget)
	return firebase.Watching{Initial: initial, Events: watcher.events(ctx, forget)}, nil
}

func (f *Firestore) forget(path string, watcher *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds.remove(path, watcher)
}
