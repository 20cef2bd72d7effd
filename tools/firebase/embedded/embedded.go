// Package embedded keeps both databases of Firebase in a journal of their changes: the default backend of the firebase
// tools, which needs no account and no network. What a database holds is in memory; a snapshot bounds what a start reads.
//
// A change is in the journal before anybody sees it. A write is decided on what the database holds, and appended on the
// condition that nothing was appended since; if something was, it is taken over and the write decided once more.
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

// Journal is a durable list of entries, and a snapshot that stands for its beginning.
type Journal interface {
	// Append appends an entry behind the one at a position and returns its own position once it is durable. Errors:
	// CONFLICT when another was first; after any other it is unknown whether the entry is there.
	Append(ctx context.Context, after uint64, data []byte) (uint64, error)
	// Read calls each for the entries behind a position. DATA_LOSS when one is missing.
	Read(ctx context.Context, after uint64, each func(position uint64, data []byte) error) error
	// Snapshot returns the newest snapshot and the position of the last entry in it; nil and 0 when there is none.
	Snapshot(ctx context.Context) (data []byte, position uint64, err error)
	// SaveSnapshot replaces the snapshot and lets go of the entries up to the position.
	SaveSnapshot(ctx context.Context, position uint64, data []byte) error
	// Largest is how many bytes an entry may have.
	Largest() int
	// Last returns the position of the newest entry, 0 when there never was one.
	Last(ctx context.Context) (uint64, error)
	// Follow calls changed until ctx ends, soon after each entry with its position, and now and then with 0: there may be
	// entries that nobody has told of.
	Follow(ctx context.Context, changed func(position uint64)) error
}

// The defaults of Config.
const (
	// DefaultBacklog and DefaultHeld are how many events and bytes a watcher may be behind.
	DefaultBacklog = 256
	DefaultHeld    = 8 << 20
	// DefaultMost is how many bytes of data a database holds.
	DefaultMost = 128 << 20
	// DefaultEntries and DefaultBytes are how much the journal grows at least before a snapshot is taken.
	DefaultEntries = 10_000
	DefaultBytes   = 16 << 20
)

// Config is the configuration of a database. Journal is required.
type Config struct {
	// Journal opens the journal when the database is first used, and again if that failed.
	Journal func(context.Context) (Journal, error)
	// Backlog and Held are how many events and bytes a watcher may be behind; 0 means the defaults.
	Backlog, Held int
	// Most is how many bytes of data the database may hold; 0 means DefaultMost.
	Most int
	// Entries and Bytes are how much the journal grows before a snapshot is taken, Bytes at least the size of the last
	// snapshot; 0 means the defaults.
	Entries, Bytes int
	// Shared says that others write to the journal, too, and that what they have confirmed has to be seen at once: each read
	// asks for it. Without it, what others write is seen soon after.
	Shared bool
	// Logger gets what nobody waits for; nil discards it.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	for value, usual := range map[*int]int{
		&c.Backlog: DefaultBacklog, &c.Held: DefaultHeld, &c.Most: DefaultMost, &c.Entries: DefaultEntries, &c.Bytes: DefaultBytes,
	} {
		if *value == 0 {
			*value = usual
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// projection is a database in memory.
type projection interface {
	firebase.Backend
	Load(s memory.State) error
	Replay(c memory.Change) error
	Capture() func() memory.State
	Exclusive(fn func() error) error
	End(err error)
}

// Database is a Realtime Database or a Firestore that outlives the process. It implements firebase.Backend.
type Database struct {
	cfg  Config
	make func(memory.Config) projection

	// opening has a token while somebody reads the journal or closes the database; who waits for that can go away.
	opening chan struct{}
	open    atomic.Pointer[persister] // nil until the first use
	closed  atomic.Bool
	// life ends with the database, and followers with it.
	life      context.Context //nolint:containedctx // the life of the database, which calls do not end
	end       context.CancelFunc
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

func newDatabase(cfg Config, of func(memory.Config) projection) *Database {
	d := &Database{cfg: cfg.withDefaults(), make: of, opening: make(chan struct{}, 1)}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// ready returns the persister of the database once its journal was read.
func (d *Database) ready(ctx context.Context) (*persister, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From(err)
	}
	if k := d.open.Load(); k == nil || k.stale.Load() {
		select {
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case d.opening <- struct{}{}:
		}
		defer func() { <-d.opening }()
	}
	k := d.open.Load()
	if d.closed.Load() {
		return nil, refusal.New(refusal.ConnectionError, "the database is closed")
	}
	if k != nil && !k.stale.Load() {
		return k, nil
	}
	fresh, err := d.start(ctx)
	if err != nil {
		return nil, unreached(err)
	}
	if k != nil {
		k.retire()
	}
	var following context.Context
	following, fresh.stop = context.WithCancel(d.life)
	d.followers.Go(func() { d.follow(following, fresh) })
	d.open.Store(fresh)
	return fresh, nil
}

// start reads the journal.
func (d *Database) start(ctx context.Context) (*persister, error) {
	journal, err := d.cfg.Journal(ctx)
	if err != nil {
		return nil, err
	}
	for tries := 3; ; tries-- {
		k := &persister{cfg: d.cfg, journal: journal, saves: &d.saves}
		k.projection = d.make(memory.Config{
			Backlog: d.cfg.Backlog, Held: d.cfg.Held, Most: d.cfg.Most, Keep: k.keep, Now: d.cfg.Now,
		})
		err := k.restore(ctx)
		if tries == 0 || !fault.Has(err, fault.DataLoss) || !k.outdated(ctx) {
			return k, err
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

// Close waits for the snapshots that are being taken. What was written is durable already.
func (d *Database) Close() {
	d.closed.Store(true)
	d.end()
	d.opening <- struct{}{}
	defer func() { <-d.opening }()
	d.saves.end()
	d.followers.Wait()
}

// unreached is an error of the journal as one of a database.
func unreached(err error) error {
	e := fault.From(err)
	switch {
	case e == nil:
		return nil
	case e.Code == fault.Cancelled, e.Reason == refusal.SizeLimitExceeded:
		return e
	case e.Code == fault.DiskFull:
		return refused(refusal.QuotaExceeded, "the node has no room for the change", e)
	case e.Code == fault.DataLoss:
		return refused(refusal.ConnectionError, "the database is damaged", e)
	default:
		return refused(refusal.ConnectionError, "the database cannot be reached", e)
	}
}

// refused keeps the cause for the log of the node: its message is for people, what it wraps is not.
func refused(reason, message string, cause *fault.Error) error {
	return fault.Wrap(refusal.Code(reason), cause, message+": "+cause.Message).WithReason(reason).WithHint("%s", cause.Hint)
}
