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

	writing  sync.Mutex // held by one write after the other, from its decision on; guards what follows
	keys     tree.Keys
	revision uint64
	size     int // of all documents

	mu          sync.Mutex                   // guards what follows
	collections map[string]map[string]stored // by path, then by id; none is empty
	feeds       feedsByPath
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
	return &Firestore{cfg: cfg.withDefaults(), collections: map[string]map[string]stored{}, feeds: feedsByPath{}}
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
	return untilDecided(func() (firebase.Written, error) { return f.write(ctx, to, w) })
}

// write decides a write, keeps it and lets others see it.
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
	old := f.present(to)
	if w.If != "" && w.If != old.version() {
		return firebase.Written{}, changedMeanwhile()
	}
	fields, err := content(old, to, w)
	if err == nil {
		err = f.keep(ctx, to, old, fields, written.At)
	}
	if err != nil {
		return firebase.Written{}, err
	}
	return written, nil
}

// present is a document now.
func (f *Firestore) present(at document.Path) stored {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.document(at)
}

// keep makes the fields of a document durable, nil for its end, and lets others see them.
func (f *Firestore) keep(ctx context.Context, to document.Path, old stored, fields document.Fields, at time.Time) error {
	if fields != nil && old.exists() && old.fields.Equal(fields) || fields == nil && !old.exists() {
		return nil
	}
	if err := f.cfg.full(f.size, f.size+sizeOf(to, fields)-sizeOf(to, old.fields)); err != nil {
		return err
	}
	p := Put{Path: to.String()}
	if fields != nil {
		p.Data, p.Revision = fields.Value(), f.revision+1
	}
	if err := f.cfg.Keep(ctx, Change{At: at, Puts: []Put{p}}); err != nil {
		return err
	}
	f.become(to, stored{fields, p.Revision}, at)
	return nil
}

// sizeOf is what a document counts for, 0 for one that is not there.
func sizeOf(at document.Path, fields document.Fields) int {
	if fields == nil {
		return 0
	}
	return fields.Size(at)
}

// Replay makes a change that was kept before, here or elsewhere. Only Config.Keep may call it while there are writes.
// Errors: those of a change that no write makes.
func (f *Firestore) Replay(c Change) error {
	for _, p := range c.Puts {
		to, err := document.ParsePath(p.Path)
		if err != nil {
			return err
		}
		now := stored{revision: p.Revision}
		if p.Data != nil {
			if now.fields, err = document.New(p.Data); err != nil {
				return err
			}
		}
		f.become(to, now, c.At)
	}
	return nil
}

// Exclusive calls fn while nobody writes, so that it may call Replay.
func (f *Firestore) Exclusive(fn func() error) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return fn()
}

// End ends all watches with an error, behind the events that wait.
func (f *Firestore) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds.end(err)
}

// Load makes a state that was captured the present one.
func (f *Firestore) Load(s State) error {
	if err := f.Replay(Change{At: f.cfg.Now(), Puts: s.Puts}); err != nil {
		return err
	}
	f.revision = max(f.revision, s.Revision)
	return nil
}

// Capture holds on to what the database holds now; what it returns makes the state of it, which costs more. Only
// Config.Keep may call it while there are writes.
func (f *Firestore) Capture() func() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(map[string]map[string]stored, len(f.collections))
	for path, documents := range f.collections {
		held[path] = maps.Clone(documents)
	}
	revision := f.revision
	return func() State { return stateOf(held, revision) }
}

func stateOf(collections map[string]map[string]stored, revision uint64) State {
	s := State{Revision: revision, Puts: []Put{}}
	for path, documents := range collections {
		for id, d := range documents {
			s.Puts = append(s.Puts, Put{Path: path + "/" + id, Data: d.fields.Value(), Revision: d.revision})
		}
	}
	return s
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

// become stores a document, or removes it when it does not exist any more, and tells the watchers.
func (f *Firestore) become(to document.Path, now stored, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, id, old := to.Parent().String(), to.ID(), f.document(to)
	f.size += sizeOf(to, now.fields) - sizeOf(to, old.fields)
	if !now.exists() {
		delete(f.collections[in], id)
		if len(f.collections[in]) == 0 {
			delete(f.collections, in)
		}
	} else {
		f.revision = max(f.revision, now.revision)
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
			if !watcher.Add(happened(watcher.wants, to.ID(), old, now, at), size) {
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
	watcher := newFeed(events, f.cfg)
	f.feeds.add(path, watcher)
	forget := func() { f.forget(path, watcher) }
	context.AfterFunc(ctx, forget)
	return firebase.Watching{Initial: initial, Events: watcher.Events(ctx, forget)}, nil
}

func (f *Firestore) forget(path string, watcher *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds.remove(path, watcher)
}
