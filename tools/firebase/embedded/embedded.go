// Package embedded implements both Firebase databases with a journal of their changes. It is the default backend of the
// firebase.* tools and needs no account and no network. The data is in memory; snapshots limit how many entries must be
// read at startup.
//
// A change is appended to the journal before it becomes visible. A write is computed from the current data, and
// appended on the condition that the journal has no newer entries. If it has newer entries, they are applied first and
// the write is computed again.
package embedded

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Journal is a durable list of entries, with a snapshot that replaces the oldest ones.
type Journal interface {
	// Append appends an entry if the newest entry is at position after, 0 for an empty journal. It returns the position
	// of the new entry once that is durable. Errors: CONFLICT when another entry was appended first; after any other
	// error it is unknown whether the entry was appended.
	Append(ctx context.Context, after uint64, data []byte) (uint64, error)
	// Read calls each for the entries after a position, in order, until each returns an error. It returns DATA_LOSS
	// when an entry is missing.
	Read(ctx context.Context, after uint64, each func(position uint64, data []byte) error) error
	// Snapshot returns the latest snapshot and the position of the last entry in it; nil and 0 when there is none.
	Snapshot(ctx context.Context) (data []byte, position uint64, err error)
	// SaveSnapshot replaces the snapshot, and may then delete entries up to the position.
	SaveSnapshot(ctx context.Context, position uint64, data []byte) error
	// Largest returns the maximum size of an entry in bytes.
	Largest() int
	// Last returns the position of the latest entry, 0 for a new journal.
	Last(ctx context.Context) (uint64, error)
	// Follow calls changed with the position of a new entry soon after the entry was appended, until ctx ends. At
	// intervals it also calls changed with 0, because a notification may have been lost.
	Follow(ctx context.Context, changed func(position uint64)) error
}

// The defaults of Config.
const (
	// DefaultBacklog and DefaultHeld are how many events and bytes a watcher may be behind.
	DefaultBacklog = 256
	DefaultHeld    = 8 << 20
	// DefaultMost is the maximum size of the data of a database in bytes.
	DefaultMost = 128 << 20
	// DefaultEntries and DefaultBytes are the growth of the journal after which a snapshot is saved.
	DefaultEntries = 10_000
	DefaultBytes   = 16 << 20
)

// Config configures a database. Journal is required.
type Config struct {
	// Journal opens the journal on first use of the database, and again after a failure.
	Journal func(context.Context) (Journal, error)
	// Backlog and Held are how many events and bytes a watcher may be behind; 0 means the defaults.
	Backlog, Held int
	// Most is the maximum size of the data in bytes; 0 means DefaultMost.
	Most int
	// Entries and Bytes are the growth of the journal after which a snapshot is saved; 0 means the defaults. If the
	// last snapshot is larger than Bytes, its size is used instead of Bytes.
	Entries, Bytes int
	// Shared makes each read see all confirmed writes of other processes: the read first looks for new entries in the
	// journal. Otherwise the writes of other processes become visible with a short delay.
	Shared bool
	// Logger logs errors in the background; nil discards the records.
	Logger *slog.Logger
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	for value, fallback := range map[*int]int{
		&c.Backlog: DefaultBacklog, &c.Held: DefaultHeld, &c.Most: DefaultMost, &c.Entries: DefaultEntries, &c.Bytes: DefaultBytes,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// projection is a database in memory that contains the changes of the journal.
type projection interface {
	firebase.Backend
	Load(s memory.State) error
	Replay(c memory.Change) error
	Capture() func() memory.State
	Exclusive(fn func() error) error
	End(err error)
}

// Database is a persistent Realtime Database or Firestore. It implements firebase.Backend.
type Database struct {
	cfg           Config
	newProjection func(memory.Config) projection

	// opening is a lock, held while a goroutine reads the journal or closes the database. It is a channel so that
	// waiting can be cancelled.
	opening   chan struct{}
	persister atomic.Pointer[persister] // nil until first use
	closed    atomic.Bool
	// ctx ends when the database is closed, and ends the followers.
	ctx       context.Context //nolint:containedctx // the lifetime of the database, independent of calls
	cancel    context.CancelFunc
	followers sync.WaitGroup
	saves     saves
}

var _ firebase.Backend = (*Database)(nil)

// NewRealtime returns a Realtime Database.
func NewRealtime(cfg Config) *Database {
	return newDatabase(cfg, func(c memory.Config) projection { return memory.NewRealtime(c) })
}

// NewFirestore returns a Firestore.
func NewFirestore(cfg Config) *Database {
	return newDatabase(cfg, func(c memory.Config) projection { return memory.NewFirestore(c) })
}

func newDatabase(cfg Config, newProjection func(memory.Config) projection) *Database {
	d := &Database{cfg: cfg.withDefaults(), newProjection: newProjection, opening: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// ready returns the persister of the database. It reads the journal on first use, and again if the persister is stale.
func (d *Database) ready(ctx context.Context) (*persister, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From(err)
	}
	if p := d.persister.Load(); p == nil || p.stale.Load() {
		select {
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case d.opening <- struct{}{}:
		}
		defer func() { <-d.opening }()
	}
	p := d.persister.Load()
	if d.closed.Load() {
		return nil, refusal.New(refusal.ConnectionError, "the database is closed")
	}
	if p != nil && !p.stale.Load() {
		return p, nil
	}
	fresh, err := d.start(ctx)
	if err != nil {
		return nil, databaseError(err)
	}
	if p != nil {
		p.retire()
	}
	var followCtx context.Context
	followCtx, fresh.stop = context.WithCancel(d.ctx)
	d.followers.Go(func() { d.follow(followCtx, fresh) })
	d.persister.Store(fresh)
	return fresh, nil
}

// start returns a persister that has read the journal. It retries if another process deletes entries meanwhile, after a
// newer snapshot.
func (d *Database) start(ctx context.Context) (*persister, error) {
	journal, err := d.cfg.Journal(ctx)
	if err != nil {
		return nil, err
	}
	for tries := 3; ; tries-- {
		p := &persister{cfg: d.cfg, journal: journal, saves: &d.saves}
		p.projection = d.newProjection(memory.Config{
			Backlog: d.cfg.Backlog, Held: d.cfg.Held, Most: d.cfg.Most, Persist: p.persist, Now: d.cfg.Now,
		})
		err := p.restore(ctx)
		if tries == 0 || !fault.Has(err, fault.DataLoss) || !p.outdated(ctx) {
			return p, err
		}
	}
}

// Read implements firebase.Backend.
func (d *Database) Read(ctx context.Context, path string, q firebase.Query) (s firebase.Snapshot, err error) {
	err = d.use(ctx, true, func(b firebase.Backend) (err error) { s, err = b.Read(ctx, path, q); return err })
	return s, err
}

// Write implements firebase.Backend.
func (d *Database) Write(ctx context.Context, path string, w firebase.Write) (done firebase.Written, err error) {
	err = d.use(ctx, false, func(b firebase.Backend) (err error) { done, err = b.Write(ctx, path, w); return err })
	return done, err
}

// Watch implements firebase.Backend.
func (d *Database) Watch(ctx context.Context, path string, events firebase.EventType) (w firebase.Watching, err error) {
	err = d.use(ctx, true, func(b firebase.Backend) (err error) { w, err = b.Watch(ctx, path, events); return err })
	return w, err
}

// Close closes the database and waits for running snapshots. Confirmed writes are already durable.
func (d *Database) Close() {
	d.closed.Store(true)
	d.cancel()
	d.opening <- struct{}{}
	defer func() { <-d.opening }()
	d.saves.close()
	d.followers.Wait()
}

// databaseError converts an error of the journal to an error of a database.
func databaseError(err error) error {
	e := fault.From(err)
	switch {
	case e == nil:
		return nil
	case e.Code == fault.Cancelled, e.Reason == refusal.SizeLimitExceeded:
		return e
	case e.Code == fault.DiskFull:
		return wrap(refusal.QuotaExceeded, "the node has no room for the change", e)
	case e.Code == fault.DataLoss:
		return wrap(refusal.ConnectionError, "the database is damaged", e)
	default:
		return wrap(refusal.ConnectionError, "the database cannot be reached", e)
	}
}

// wrap returns an error with a reason. Its message includes that of the cause. The cause itself is only for the log of
// the node.
func wrap(reason, message string, cause *fault.Error) error {
	return fault.Wrap(refusal.Code(reason), cause, message+": "+cause.Message).WithReason(reason).WithHint("%s", cause.Hint)
}
