package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// StoreConfig configures the log and its side stores.
type StoreConfig struct {
	// Durability defaults to that of the embedded server. With an external server it states how durable the messages
	// are that the server has acknowledged, and does not change the server.
	Durability Durability
	// Logger logs background work of the store; nil discards it.
	Logger *slog.Logger
	// HighWaterFile is the file with the second copy of the high-water mark. Default: highwater.json in the data
	// directory of the embedded server, none with an external server.
	HighWaterFile string
	// Replicas is the number of copies of every stream, 1 by default; 3 in a cluster.
	Replicas int
	// Program is the version of the program, which a store on an external server records. For an embedded server, set
	// ServerConfig.Program.
	Program string
	// ReadNewer allows opening a store on an external server that a newer orch has written, for reading only. For an
	// embedded server, set ServerConfig.ReadNewer.
	ReadNewer bool
	// Lease is the lease of the active node of a cluster: the log then refuses appends of nodes with earlier leases. If it
	// is nil, every process may append.
	Lease Lease
	// ArchiveAge is how long finished tasks stay in the archive; 0 means forever.
	ArchiveAge time.Duration

	// restoring is set while a backup is restored to the servers.
	restoring bool
}

func (c *StoreConfig) validate(s *Server) error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		return fault.New(fault.ValidationError, "%d is not a valid number of replicas", c.Replicas).
			WithField("replicas").WithHint("use 1, 3 or 5")
	}
	c.Replicas = max(c.Replicas, 1)
	if s != nil {
		c.fromServer(s)
	}
	var err error
	c.Durability, err = c.Durability.orDefault()
	return err
}

// Store is the log of commits, the blobs and the checkpoints on JetStream. It implements events.Log,
// events.Blobs and events.Checkpoints and is safe for concurrent use.
type Store struct {
	*streams
	*sideStore
	*archive
	*highWater

	cancel     context.CancelFunc
	background sync.WaitGroup
	closed     sync.Once
	raising    sync.Mutex // held while the version of the store is raised
}

// streams holds the streams and buckets of a store, and the state that all its parts share.
type streams struct {
	cfg        StoreConfig
	conn       *Conn
	live       jetstream.Stream // the live log; nil if it is lost
	archiveLog jetstream.Stream // the archive
	points     jetstream.KeyValue
	meta       jetstream.KeyValue
	tokens     jetstream.KeyValue
	blobs      jetstream.ObjectStore
	// sessions stores the sessions of MCP clients.
	sessions jetstream.KeyValue
	messages jetstream.Stream
	appender *appender
	space    *space
	// journals records how far the journals have come.
	journals *journalMarks
	// epoch is the epoch of the lease; 0 without one.
	epoch uint64
	// lostData lists the losses that a salvage has accepted; it only changes while the store is opened.
	lostData *Lost
	// touched is set when a stream beside the log may have grown since the last high-water mark.
	touched atomic.Bool
	// compact is set if the version of the store has compressed and linked commits and groups of archived histories.
	compact  atomic.Bool
	startSeq uint64                      // the newest position when the store was opened; commits up to it are durable
	loss     atomic.Pointer[fault.Error] // set once a loss is detected: no more appends
}

// sideStore stores data beside the log: large values, checkpoints, sessions, statistics and indexes.
type sideStore struct{ *streams }

// archive moves histories from the live log to the archive, reads them from both, and removes old ones from the archive.
type archive struct {
	*streams

	filter   *archiveFilter
	attempts *archiveAttempts
	gate     archiveGate
	groups   archiveGroups
	known    knownGroups
	// removals is set when the archive has records of removed tasks.
	removals atomic.Bool
	// removed remembers the records of removed tasks.
	removed *removedSet
	// bookmarks remembers where readers of live histories stopped.
	bookmarks bookmarks
}

// highWater maintains the high-water mark: a record of the newest commit, which shows a loss of acknowledged commits.
type highWater struct {
	*streams

	archive *archive
	mark    *marker
}

var (
	_ events.Log         = (*Store)(nil)
	_ events.Blobs       = (*Store)(nil)
	_ events.Checkpoints = (*Store)(nil)
)

// OpenStore creates or checks the streams and buckets and compares the log with its high-water mark.
// A log that has lost commits is opened read-only: Status and every append report the loss. Errors: UNAVAILABLE,
// DISK_FULL, VALIDATION_ERROR, FORBIDDEN if the server denies a subject.
func (c *Conn) OpenStore(ctx context.Context, cfg StoreConfig) (*Store, error) {
	began := time.Now()
	s, err := c.openStore(ctx, cfg)
	return s, c.Denied(began, err)
}

func (c *Conn) openStore(ctx context.Context, cfg StoreConfig) (*Store, error) {
	if err := cfg.validate(c.target.server); err != nil {
		return nil, err
	}
	if !cfg.restoring {
		if err := c.checkRestored(ctx); err != nil {
			return nil, err
		}
	}
	s := newStore(cfg, c)
	if server := c.target.server; server != nil && server.newer != nil {
		s.loss.Store(server.newer)
	}
	c.replicated.Store(cfg.Replicas > 1)
	if err := s.readLostData(); err != nil {
		return nil, err
	}
	if err := s.openStreams(ctx); err != nil {
		return nil, err
	}
	if err := s.checkMark(ctx); err != nil {
		return nil, err
	}
	if err := s.openAppender(ctx); err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.background.Go(func() { s.maintain(background) })
	s.background.Go(func() { s.watchEpoch(background) })
	s.background.Go(func() { s.checkTrusted(background) })
	err := s.finishSalvage(ctx)
	if err == nil {
		err = s.verifyAfterSyncFailure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func newStore(cfg StoreConfig, c *Conn) *Store {
	b := &streams{cfg: cfg, conn: c, space: newSpace(c.target.server)}
	ar := &archive{streams: b, filter: newArchiveFilter(), attempts: newArchiveAttempts(), removed: newRemovedSet()}
	lag := cfg.Durability == Relaxed
	mark := &marker{path: cfg.HighWaterFile, lag: lag}
	b.journals = newJournalMarks(c.target.server, lag)
	return &Store{streams: b, sideStore: &sideStore{b}, archive: ar, highWater: &highWater{streams: b, archive: ar, mark: mark}}
}

// Epoch returns the epoch of the appends of this process; 0 if every process may append.
func (b *streams) Epoch() uint64 { return b.epoch }

// barrier returns the barrier of the embedded server; nil if the server itself syncs every write, or is external.
func (b *streams) barrier() *barrier {
	if b.conn.target.server == nil {
		return nil
	}
	return b.conn.target.server.barrier
}

// settle makes all writes to a stream before the call durable, on a relaxed node too: something older depends on them, such as a history
// that is removed from the log because the archive has it.
func (b *streams) settle(stream string) error {
	server := b.conn.target.server
	switch {
	case server == nil, server.syncing == SyncAlways:
		return nil
	case server.firm == nil:
		return b.syncMeta()
	default:
		return server.firm.wait(stream)
	}
}

// watch adds a stream to what can be made durable. The caller must make its existing content durable in another way.
func (b *streams) watch(stream string) error {
	if b.conn.target.server == nil {
		return nil
	}
	return b.conn.target.server.firm.watch(stream)
}

// checkDurable returns an error if the commit at a position may not be on the disk because a sync has failed.
func (b *streams) checkDurable(seq uint64) error {
	err := b.barrier().err()
	if err == nil || seq <= b.startSeq {
		return nil
	}
	b.appender.mu.Lock()
	defer b.appender.mu.Unlock()
	if seq <= b.appender.newest.seq {
		return nil
	}
	return err
}

// Close waits for the appends in flight until ctx ends, writes the high-water mark and stops all goroutines of the store.
// The connection stays open. It is idempotent.
func (s *Store) Close(ctx context.Context) error {
	var err error
	s.closed.Do(func() {
		s.appender.drain(ctx)
		s.cancel()
		s.background.Wait()
		s.appender.close()
		err = errors.Join(s.lastMark(ctx), s.writeJournals())
	})
	return err
}

// lastMark writes the mark for the last commit. It ignores that an external server is unavailable: the previous mark is
// still correct, and the next node that appends writes a newer one.
func (hw *highWater) lastMark(ctx context.Context) error {
	err := hw.closeMark(ctx)
	if hw.conn.External() && fault.Has(err, fault.Unavailable) {
		hw.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "high-water mark not written", slog.Any("error", err))
		return nil
	}
	return err
}

// maintainEvery is the interval of the store's maintenance.
const maintainEvery = 250 * time.Millisecond

// maintain resolves lost acknowledgements, restarts a server that no longer writes, and advances the
// high-water mark, until ctx ends.
func (s *Store) maintain(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.appender.lostSignal:
			s.resolveLost(ctx)
		case <-tick.C:
			s.appender.expire(time.Now(), s.ackTimeout())
			s.resolveLost(ctx)
			s.maintainDisk(ctx)
		}
	}
}

// ackTimeout returns how long to wait for an acknowledgement, given the current space on the disk.
func (s *Store) ackTimeout() time.Duration {
	if r := s.space.full.Load(); r != nil && r.disk || s.space.diskShort() {
		return ackWithinFull
	}
	return ackWithin
}

// maintainDisk updates the reserved disk space and the high-water mark.
func (s *Store) maintainDisk(ctx context.Context) {
	if server := s.conn.target.server; server != nil {
		if err := server.reserve.update(&server.cfg); err != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "no space is set aside for a full disk", slog.Any("error", err))
		}
	}
	if err := s.moveMark(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "high-water mark not written", slog.Any("error", err))
	}
	if err := s.writeJournals(); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "positions of journals not written", slog.Any("error", err))
	}
}
