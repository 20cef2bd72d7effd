package memory

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Realtime is a Realtime Database.
type Realtime struct {
	cfg Config

	writing sync.Mutex // serializes writes; guards keys
	keys    tree.Keys

	mu    sync.Mutex // guards the following fields
	root  *tree.Node
	feeds feedsByPath
}

var _ firebase.Backend = (*Realtime)(nil)

// NewRealtime returns an empty Realtime Database.
func NewRealtime(cfg Config) *Realtime {
	return &Realtime{cfg: cfg.withDefaults(), feeds: feedsByPath{}}
}

// Read implements firebase.Backend.
func (r *Realtime) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	if err := ctx.Err(); err != nil {
		return firebase.Snapshot{}, err
	}
	r.mu.Lock()
	node, now := r.root.At(at), r.cfg.Now()
	r.mu.Unlock()
	switch {
	case q.Shallow && q.Selects():
		return firebase.Snapshot{}, refusal.New(refusal.ValidationError, "a shallow read has no query").WithField("shallow")
	case q.Shallow:
		return firebase.Snapshot{Exists: node != nil, Data: node.Shallow(), At: now}, nil
	case q.Selects():
		return querySnapshot(node, q, now)
	default:
		return snapshot(node, now), nil
	}
}

func snapshot(node *tree.Node, at time.Time) firebase.Snapshot {
	return firebase.Snapshot{Exists: node != nil, Data: node.Value(), Version: firebase.Version(node.Version()), At: at}
}

// querySnapshot returns the children of a node that a query selects.
func querySnapshot(node *tree.Node, q firebase.Query, at time.Time) (firebase.Snapshot, error) {
	selected, found, err := node.Select(tree.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	s := firebase.Snapshot{Exists: node != nil, Data: selected.Value(), At: at}
	for _, child := range found {
		s.Children = append(s.Children, firebase.Child{Key: child.Key, Data: child.Node.Value()})
	}
	return s, nil
}

// Write implements firebase.Backend.
func (r *Realtime) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := checkRealtime(w); err != nil {
		return firebase.Written{}, err
	}
	return retryIfOvertaken(func() (firebase.Written, error) { return r.write(ctx, to, w) })
}

// write computes a write, persists it and makes it visible.
func (r *Realtime) write(ctx context.Context, to tree.Path, w firebase.Write) (firebase.Written, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return firebase.Written{}, err
	}
	before, at := r.current(), r.cfg.Now()
	if w.If != "" && w.If != firebase.Version(before.At(to).Version()) {
		return firebase.Written{}, conflictError()
	}
	after, key, err := r.apply(before, to, w, at)
	if err == nil {
		err = r.cfg.checkSize(before.Size(), after.Size())
	}
	if err == nil {
		err = r.persist(ctx, before, after, at)
	}
	if err != nil {
		return firebase.Written{}, err
	}
	r.commit(after, at)
	return firebase.Written{Key: key, At: at}, nil
}

// persist makes the difference between two roots durable.
func (r *Realtime) persist(ctx context.Context, before, after *tree.Node, at time.Time) error {
	c := Change{At: at}
	for _, p := range tree.Patch(before, after) {
		c.Assignments = append(c.Assignments, Assignment{Path: p.Path.String(), Data: p.Node.Export()})
	}
	if len(c.Assignments) == 0 {
		return nil
	}
	return r.cfg.Persist(ctx, c)
}

// current returns the current root.
func (r *Realtime) current() *tree.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.root
}

// commit replaces the root, and notifies the watchers.
func (r *Realtime) commit(root *tree.Node, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish(root, at)
	r.root = root
}

// Replay applies a change that was persisted before, by this or another process. While there are writes, only
// Config.Persist and functions called by Exclusive may call it. Errors: those of an invalid change.
func (r *Realtime) Replay(c Change) error {
	root := r.current()
	for _, p := range c.Assignments {
		path, err := tree.ParsePath(p.Path)
		if err != nil {
			return err
		}
		node, err := tree.Import(p.Data)
		if err != nil {
			return err
		}
		root = root.Assign(tree.Assignment{Path: path, Node: node})
	}
	r.commit(root, c.At)
	return nil
}

// Exclusive calls fn while no write runs, so that fn may call Replay.
func (r *Realtime) Exclusive(fn func() error) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return fn()
}

// End ends all watches with an error, after their queued events.
func (r *Realtime) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds.end(err)
}

// Load replaces the content of the database with a captured state.
func (r *Realtime) Load(s State) error {
	return r.Replay(Change{At: r.cfg.Now(), Assignments: s.Assignments})
}

// Capture takes a snapshot of the content. The returned function converts the snapshot to a State, which takes longer.
func (r *Realtime) Capture() func() State {
	root := r.current()
	return func() State { return State{Assignments: []Assignment{{Data: root.Export()}}} }
}

// checkRealtime returns an error for a write that a Realtime Database does not support.
func checkRealtime(w firebase.Write) error {
	switch {
	case w.Merge:
		return refusal.New(refusal.ValidationError, "merge is for Firestore").
			WithField("merge").WithHint("an update keeps the other children")
	case w.Operation == firebase.Push && w.If != "":
		return conditionalPush()
	default:
		return nil
	}
}

// apply returns the root after a write, and the key that a push generated.
func (r *Realtime) apply(before *tree.Node, to tree.Path, w firebase.Write, at time.Time) (root *tree.Node, key string, err error) {
	switch w.Operation {
	case firebase.Set:
		root, err = before.Set(to, w.Data, at)
	case firebase.Update:
		root, err = before.Update(to, w.Data, at)
	case firebase.Delete:
		root = before.Delete(to)
	case firebase.Push:
		key = nextKey(&r.keys, at)
		root, err = before.Set(to.Child(key), w.Data, at)
	default:
		err = unknownOperation(w.Operation)
	}
	return root, key, err
}

// publish notifies the watchers of the changes from the current root to root. r.mu must be held.
func (r *Realtime) publish(root *tree.Node, at time.Time) {
	for text, feeds := range r.feeds {
		path := parsedPath(text)
		changes := tree.Diff(r.root.At(path), root.At(path))
		for f := range feeds {
			if !notify(f, changes, at) {
				r.feeds.remove(text, f)
			}
		}
	}
}

// parsedPath parses a path that is known to be valid.
func parsedPath(text string) tree.Path {
	path, _ := tree.ParsePath(text)
	return path
}

// notify adds the changes of the feed's event type to the feed. It returns false when the reader is too far behind.
func notify(f *feed, changes []tree.Change, at time.Time) bool {
	for _, change := range changes {
		if firebase.EventType(change.Kind) == f.events && !f.Add(changeEvent(change, at), change.Now.Size()+change.Before.Size()) {
			return false
		}
	}
	return true
}

// changeEvent returns a function that builds the event of a change.
func changeEvent(c tree.Change, at time.Time) func() firebase.Event {
	return func() firebase.Event {
		return firebase.Event{
			Type: firebase.EventType(c.Kind), Key: c.Key, Data: c.Now.Value(), Previous: c.Before.Value(), At: at,
		}
	}
}

// Watch implements firebase.Backend.
func (r *Realtime) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	switch events {
	case firebase.Value, firebase.ChildAdded, firebase.ChildChanged, firebase.ChildRemoved:
	default:
		return firebase.Watching{}, unsupportedEvents(events, "the Realtime Database")
	}
	if err := ctx.Err(); err != nil {
		return firebase.Watching{}, err
	}
	f := newFeed(events, r.cfg)
	r.mu.Lock()
	node, now := r.root.At(at), r.cfg.Now()
	r.feeds.add(path, f)
	r.mu.Unlock()
	unwatch := func() { r.unwatch(path, f) }
	context.AfterFunc(ctx, unwatch)
	return firebase.Watching{Initial: snapshot(node, now), Events: f.Events(ctx, unwatch)}, nil
}

func (r *Realtime) unwatch(path string, f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds.remove(path, f)
}
