package memory

import (
	"context"
	"maps"
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

	writing  sync.Mutex // serializes writes; guards the following fields
	keys     tree.Keys
	revision uint64
	size     int // of all documents in bytes

	mu          sync.Mutex                   // guards the following fields
	collections map[string]map[string]stored // by path, then by id; no inner map is empty
	feeds       feedsByPath
}

// stored is a stored document. A document that does not exist has no fields and revision 0.
type stored struct {
	fields   document.Fields
	revision uint64
}

func (s stored) exists() bool { return s.revision != 0 }

func (s stored) version() firebase.Version {
	return firebase.Version(strconv.FormatUint(s.revision, 10))
}

// value returns a copy of the fields, nil if the document does not exist.
func (s stored) value() any {
	if !s.exists() {
		return nil
	}
	return s.fields.Value()
}

var _ firebase.Backend = (*Firestore)(nil)

// NewFirestore returns an empty Firestore database.
func NewFirestore(cfg Config) *Firestore {
	return &Firestore{cfg: cfg.withDefaults(), collections: map[string]map[string]stored{}, feeds: feedsByPath{}}
}

// Read implements firebase.Backend. It ignores q if the path is that of a document.
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

// read returns the data at a path. f.mu must be held.
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
	return collectionSnapshot(found, len(all) > 0, f.cfg.Now()), nil
}

func collectionSnapshot(found []document.Document, exists bool, at time.Time) firebase.Snapshot {
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
	return retryIfOvertaken(func() (firebase.Written, error) { return f.write(ctx, to, w) })
}

// write computes a write, persists it and makes it visible.
func (f *Firestore) write(ctx context.Context, to document.Path, w firebase.Write) (firebase.Written, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return firebase.Written{}, err
	}
	written := firebase.Written{At: f.cfg.Now()}
	if w.Operation == firebase.Push {
		written.Key = nextKey(&f.keys, written.At)
		to = to.Child(written.Key)
	}
	old := f.current(to)
	if w.If != "" && w.If != old.version() {
		return firebase.Written{}, conflictError()
	}
	fields, err := content(old, to, w)
	if err == nil {
		err = f.persist(ctx, to, old, fields, written.At)
	}
	if err != nil {
		return firebase.Written{}, err
	}
	return written, nil
}

// current returns the current state of a document.
func (f *Firestore) current(at document.Path) stored {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.document(at)
}

// persist makes the new fields of a document durable and then visible. nil fields delete the document. It does nothing if
// the document does not change. f.writing must be held.
func (f *Firestore) persist(ctx context.Context, to document.Path, old stored, fields document.Fields, at time.Time) error {
	if fields != nil && old.exists() && old.fields.Equal(fields) || fields == nil && !old.exists() {
		return nil
	}
	if err := f.cfg.checkSize(f.size, f.size+sizeOf(to, fields)-sizeOf(to, old.fields)); err != nil {
		return err
	}
	p := Assignment{Path: to.String()}
	if fields != nil {
		p.Data, p.Revision = fields.Value(), f.revision+1
	}
	if err := f.cfg.Persist(ctx, Change{At: at, Assignments: []Assignment{p}}); err != nil {
		return err
	}
	f.commit(to, stored{fields, p.Revision}, at)
	return nil
}

// sizeOf returns the size of a document, 0 for a missing one.
func sizeOf(at document.Path, fields document.Fields) int {
	if fields == nil {
		return 0
	}
	return fields.Size(at)
}

// Replay applies a change that was persisted before, by this or another process. While there are writes, only
// Config.Persist and functions called by Exclusive may call it. Errors: those of an invalid change.
func (f *Firestore) Replay(c Change) error {
	for _, p := range c.Assignments {
		to, err := document.ParsePath(p.Path)
		if err != nil {
			return err
		}
		updated := stored{revision: p.Revision}
		if p.Data != nil {
			if updated.fields, err = document.New(p.Data); err != nil {
				return err
			}
		}
		f.commit(to, updated, c.At)
	}
	return nil
}

// Exclusive calls fn while no write runs, so that fn may call Replay.
func (f *Firestore) Exclusive(fn func() error) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return fn()
}

// End ends all watches with an error, after their queued events.
func (f *Firestore) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds.end(err)
}

// Load adds a captured state to the database, which must be empty.
func (f *Firestore) Load(s State) error {
	if err := f.Replay(Change{At: f.cfg.Now(), Assignments: s.Assignments}); err != nil {
		return err
	}
	f.revision = max(f.revision, s.Revision)
	return nil
}

// Capture takes a snapshot of the content. The returned function converts the snapshot to a State, which takes longer.
// While there are writes, only Config.Persist may call Capture.
func (f *Firestore) Capture() func() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	captured := make(map[string]map[string]stored, len(f.collections))
	for path, documents := range f.collections {
		captured[path] = maps.Clone(documents)
	}
	revision := f.revision
	return func() State { return stateOf(captured, revision) }
}

func stateOf(collections map[string]map[string]stored, revision uint64) State {
	s := State{Revision: revision, Assignments: []Assignment{}}
	for path, documents := range collections {
		for id, d := range documents {
			s.Assignments = append(s.Assignments, Assignment{Path: path + "/" + id, Data: d.fields.Value(), Revision: d.revision})
		}
	}
	return s
}

// checkFirestore returns an error for an operation that a document or a collection does not support.
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
			return conditionalPush()
		}
	default:
		return unknownOperation(w.Operation)
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

// commit stores a document, or removes a deleted one, and notifies the watchers.
func (f *Firestore) commit(to document.Path, updated stored, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, id, old := to.Parent().String(), to.ID(), f.document(to)
	f.size += sizeOf(to, updated.fields) - sizeOf(to, old.fields)
	if !updated.exists() {
		delete(f.collections[in], id)
		if len(f.collections[in]) == 0 {
			delete(f.collections, in)
		}
	} else {
		f.revision = max(f.revision, updated.revision)
		if f.collections[in] == nil {
			f.collections[in] = map[string]stored{}
		}
		f.collections[in][id] = updated
	}
	f.publish(to, old, updated, at)
}

// publish notifies the watchers of a document and of its collection. f.mu must be held.
func (f *Firestore) publish(to document.Path, old, updated stored, at time.Time) {
	kind := eventType(old, updated)
	size := old.fields.Size(to) + updated.fields.Size(to)
	for _, path := range []string{to.String(), to.Parent().String()} {
		for watcher := range f.feeds[path] {
			if watcher.events != kind && watcher.events != firebase.Value {
				continue
			}
			if !watcher.Add(newEvent(watcher.events, to.ID(), old, updated, at), size) {
				f.feeds.remove(path, watcher)
			}
		}
	}
}

// eventType returns the type of the document event for a change.
func eventType(old, updated stored) firebase.EventType {
	switch {
	case !old.exists():
		return firebase.DocumentAdded
	case !updated.exists():
		return firebase.DocumentDeleted
	default:
		return firebase.DocumentModified
	}
}

// newEvent returns a function that builds the event of a write to a document.
func newEvent(kind firebase.EventType, id string, old, updated stored, at time.Time) func() firebase.Event {
	return func() firebase.Event {
		e := firebase.Event{Type: kind, Key: id, Data: updated.value(), Previous: old.value(), At: at}
		switch kind {
		case firebase.DocumentDeleted:
			e.Data = old.value()
		case firebase.Value:
			e.Key = ""
		default:
		}
		return e
	}
}

// Watch implements firebase.Backend. It returns VALIDATION_ERROR for the type Value at a collection: only the documents of a
// collection can be watched.
func (f *Firestore) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := document.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	switch events {
	case firebase.DocumentAdded, firebase.DocumentModified, firebase.DocumentDeleted:
	case firebase.Value:
		if !at.IsDocument() {
			return firebase.Watching{}, unsupportedEvents(events, "a collection")
		}
	default:
		return firebase.Watching{}, unsupportedEvents(events, "Firestore")
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
	watcher := newFeed(events, f.cfg)
	f.feeds.add(path, watcher)
	unwatch := func() { f.unwatch(path, watcher) }
	context.AfterFunc(ctx, unwatch)
	return firebase.Watching{Initial: initial, Events: watcher.Events(ctx, unwatch)}, nil
}

func (f *Firestore) unwatch(path string, watcher *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds.remove(path, watcher)
}
