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

	writing sync.Mutex // held by one write after the other, from its decision on
	keys    tree.Keys

	mu    sync.Mutex // guards what follows
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
		return selected(node, q, now)
	default:
		return snapshot(node, now), nil
	}
}

func snapshot(node *tree.Node, at time.Time) firebase.Snapshot {
	return firebase.Snapshot{Exists: node != nil, Data: node.Value(), Version: firebase.Version(node.Version()), At: at}
}

func selected(node *tree.Node, q firebase.Query, at time.Time) (firebase.Snapshot, error) {
	left, found, err := node.Select(tree.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	s := firebase.Snapshot{Exists: node != nil, Data: left.Value(), At: at}
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
	return untilDecided(func() (firebase.Written, error) { return r.write(ctx, to, w) })
}

// write decides a write, keeps it and lets others see it.
func (r *Realtime) write(ctx context.Context, to tree.Path, w firebase.Write) (firebase.Written, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return firebase.Written{}, err
	}
	before, at := r.present(), r.cfg.Now()
	if w.If != "" && w.If != firebase.Version(before.At(to).Version()) {
		return firebase.Written{}, changedMeanwhile()
	}
	after, key, err := r.apply(before, to, w, at)
	if err == nil {
		err = r.cfg.full(before.Size(), after.Size())
	}
	if err == nil {
		err = r.keep(ctx, before, after, at)
	}
	if err != nil {
		return firebase.Written{}, err
	}
	r.become(after, at)
	return firebase.Written{Key: key, At: at}, nil
}

// keep makes what differs durable.
func (r *Realtime) keep(ctx context.Context, before, after *tree.Node, at time.Time) error {
	c := Change{At: at}
	for _, p := range tree.Patch(before, after) {
		c.Puts = append(c.Puts, Put{Path: p.Path.String(), Data: p.Node.Export()})
	}
	if len(c.Puts) == 0 {
		return nil
	}
	return r.cfg.Keep(ctx, c)
}

// present is the root now.
func (r *Realtime) present() *tree.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.root
}

// become makes another root the present one, and tells the watchers.
func (r *Realtime) become(root *tree.Node, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish(root, at)
	r.root = root
}

// Replay makes a change that was kept before, here or elsewhere. Only Config.Keep and what Exclusive
// calls may call it while there are writes.
// Errors: those of a change that no write makes.
func (r *Realtime) Replay(c Change) error {
	root := r.present()
	for _, p := range c.Puts {
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
	r.become(root, c.At)
	return nil
}

// Exclusive calls fn while nobody writes, so that it may call Replay.
func (r *Realtime) Exclusive(fn func() error) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return fn()
}

// End ends all watches with an error, behind the events that wait.
func (r *Realtime) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds.end(err)
}

// Load makes a state that was captured the present one.
func (r *Realtime) Load(s State) error { return r.Replay(Change{At: r.cfg.Now(), Puts: s.Puts}) }

// Capture holds on to what the database holds now; what it returns makes the state of it, which costs more.
func (r *Realtime) Capture() func() State {
	root := r.present()
	return func() State { return State{Puts: []Put{{Data: root.Export()}}} }
}

// checkRealtime refuses what a Realtime Database does not have.
func checkRealtime(w firebase.Write) error {
	switch {
	case w.Merge:
		return refusal.New(refusal.ValidationError, "merge is for Firestore").
			WithField("merge").WithHint("an update keeps the other children")
	case w.Operation == firebase.Push && w.If != "":
		return unconditionalPush()
	default:
		return nil
	}
}

// apply returns the root after a write, and the key that a push made.
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
		err = noSuchOperation(w.Operation)
	}
	return root, key, err
}

// publish gives the watchers what changes when root takes the place of the present one.
func (r *Realtime) publish(root *tree.Node, at time.Time) {
	for text, feeds := range r.feeds {
		path := parsed(text)
		changes := tree.Diff(r.root.At(path), root.At(path))
		for f := range feeds {
			if !offer(f, changes, at) {
				r.feeds.remove(text, f)
			}
		}
	}
}

// parsed returns a path that was parsed before.
func parsed(text string) tree.Path {
	path, _ := tree.ParsePath(text)
	return path
}

// offer gives a watcher the changes that it wants. It reports false when the watcher is too far behind.
func offer(f *feed, changes []tree.Change, at time.Time) bool {
	for _, change := range changes {
		if firebase.EventType(change.Kind) == f.wants && !f.Add(changed(change, at), change.Now.Size()+change.Before.Size()) {
			return false
		}
	}
	return true
}

func changed(c tree.Change, at time.Time) func() firebase.Event {
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
		return firebase.Watching{}, noSuchEvents(events, "the Realtime Database")
	}
	if err := ctx.Err(); err != nil {
		return firebase.Watching{}, err
	}
	f := newFeed(events, r.cfg)
	r.mu.Lock()
	node, now := r.root.At(at), r.cfg.Now()
	r.feeds.add(path, f)
	r.mu.Unlock()
	forget := func() { r.forget(path, f) }
	context.AfterFunc(ctx, forget)
	return firebase.Watching{Initial: snapshot(node, now), Events: f.Events(ctx, forget)}, nil
}

func (r *Realtime) forget(path string, f *feed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds.remove(path, f)
}
