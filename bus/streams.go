package bus

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// The streams and buckets.
const (
	liveStream        = "ORCH_EVENTS"
	archiveStream     = "ORCH_ARCHIVE"
	pointsBucket      = "ORCH_CHECKPOINTS"
	metaBucket        = "ORCH_META"
	blobsBucket       = "ORCH_BLOBS"
	blobsStream       = "OBJ_" + blobsBucket
	checkpointsStream = "KV_" + pointsBucket
	metaStream        = "KV_" + metaBucket
	tokensBucket      = "ORCH_TOKENS" //nolint:gosec // the name of a bucket
	tokensStream      = "KV_" + tokensBucket
	// The sessions are not among ownStreams: if their stream is damaged, it is created again, empty.
	sessionsBucket = "ORCH_SESSIONS"
	sessionsStream = "KV_" + sessionsBucket
	// The messages are not among ownStreams either: they expire after days, and no task depends on them.
	messagesStream = "ORCH_MESSAGES"
)

// fromServer fills the defaults that come from the embedded server.
func (c *StoreConfig) fromServer(s *Server) {
	if c.Durability == "" {
		c.Durability = s.cfg.Durability
	}
	if c.HighWaterFile == "" {
		c.HighWaterFile = filepath.Join(s.cfg.DataDir, highWaterFile)
	}
}

func (c *StoreConfig) liveConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: liveStream, Description: "one commit a message, one subject a task",
		Subjects: []string{liveAll}, Storage: jetstream.FileStorage, Replicas: c.Replicas,
		Discard: jetstream.DiscardNew, MaxBytes: -1,
		AllowDirect: true, Duplicates: noDuplicates,
	}
}

func (c *StoreConfig) archiveConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: archiveStream, Description: "whole histories of finished tasks",
		Subjects: []string{archiveAll}, Storage: jetstream.FileStorage, Replicas: c.Replicas,
		Discard: jetstream.DiscardNew, MaxAge: c.ArchiveAge,
		AllowDirect: true, Compression: jetstream.S2Compression, Duplicates: noDuplicates,
	}
}

// messagesConfig returns the configuration of the stream of messages. It stores the newest record of each subject, until the
// TTL of the record ends.
func (c *StoreConfig) messagesConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: messagesStream, Description: "messages between agents, and what became of them",
		Subjects: []string{messagesRoot + ".>"}, Storage: jetstream.FileStorage, Replicas: c.Replicas,
		MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowDirect: true, MaxBytes: -1, Duplicates: noDuplicates,
	}
}

// noDuplicates is the shortest window for duplicates that the server allows. No message has an id that the window is for, and a
// server that starts reads every message of the window: 1.7 s for a million messages of its default of two minutes.
const noDuplicates = 100 * time.Millisecond

// pointsHistory is the number of values that the bucket of checkpoints keeps for each key. A backup needs the value of the
// time at which it started, even if the key has been written again since.
const pointsHistory = 8

// openStreams opens the streams and buckets and creates missing ones. If the live log is missing although the mark shows
// that it existed, it is not created again: live stays nil.
func (s *Store) openStreams(ctx context.Context) (err error) {
	if err = s.openMeta(ctx); err != nil {
		return err
	}
	js := opener{s.conn.js, s.hasLoss()} // the store of a newer orch is read-only
	if err = s.openSides(ctx, js); err != nil {
		return openFault(err)
	}
	if err = s.mark.load(ctx, s.meta); fault.Has(err, fault.DataLoss) {
		s.refuseAppends("%s", fault.From(err).Message)
	} else if err != nil {
		return err
	}
	s.live, err = s.conn.js.Stream(ctx, liveStream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && s.mark.isSet():
		s.live = nil
		return nil
	case err == nil, errors.Is(err, jetstream.ErrStreamNotFound):
		err = s.openLive(ctx, js)
	default:
		err = openFault(err)
	}
	if err != nil {
		return err
	}
	return s.watchAll()
}

// openArchive opens the archive, and checks whether tasks were removed from it.
func (ar *archive) openArchive(ctx context.Context, js opener) (err error) {
	if ar.archiveLog, err = js.stream(ctx, ar.cfg.archiveConfig()); err != nil {
		return err
	}
	return ar.findRemovals(ctx)
}

// openLive opens the log and restricts it to the epoch of this process, if there is a lease. The server cannot make this change
// conditional on the lease. A node that loses the lease meanwhile gets UNAVAILABLE and does not use the log; the active
// node detects the change (resignIfOvertaken).
func (b *streams) openLive(ctx context.Context, js opener) (err error) {
	if !awaitHeld(ctx, b.cfg.Lease) {
		return fenced()
	}
	if b.live, err = js.stream(ctx, b.fencedConfig()); err != nil {
		return openFault(err)
	}
	if !awaitHeld(ctx, b.cfg.Lease) {
		return fenced()
	}
	return nil
}

// fencedConfig returns the configuration of the log, restricted to the epoch of this process. Without a lease, it keeps an
// existing restriction.
func (b *streams) fencedConfig() jetstream.StreamConfig {
	cfg, last := b.cfg.liveConfig(), uint64(0)
	if b.live != nil {
		last = epochOf(&b.live.CachedInfo().Config)
	}
	if b.cfg.Lease != nil {
		b.epoch = nextEpoch(b.cfg.Lease, last)
		last = b.epoch
	}
	if last > 0 {
		fence(&cfg, last)
	}
	return cfg
}

// ownStreams returns the streams that the store cannot do without, the log first.
func ownStreams() []string {
	return []string{liveStream, archiveStream, blobsStream, checkpointsStream, metaStream, tokensStream}
}

// watchAll adds the streams to the barrier, and makes their current content durable.
func (b *streams) watchAll() error {
	for _, stream := range append(ownStreams(), messagesStream) {
		if err := b.watch(stream); err != nil {
			return err
		}
	}
	return b.syncMeta()
}

// openMeta opens the bucket with the version of the store, and checks the version before anything else is changed.
func (b *streams) openMeta(ctx context.Context) (err error) {
	b.meta, err = opener{b.conn.js, b.hasLoss()}.keyValue(ctx, jetstream.KeyValueConfig{
		Bucket: metaBucket, Description: "high-water mark of the log", Replicas: b.cfg.Replicas,
	})
	if err != nil {
		return openFault(err)
	}
	if server := b.conn.target.server; server != nil {
		return b.readVersion(server.cfg.DataDir)
	}
	return b.checkExternalVersion(ctx)
}

// opener opens streams and buckets. It creates or updates them unless readOnly is set.
type opener struct {
	js       jetstream.JetStream
	readOnly bool
}

func (o opener) stream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	if o.readOnly {
		return o.js.Stream(ctx, cfg.Name)
	}
	return o.js.CreateOrUpdateStream(ctx, cfg)
}

func (o opener) keyValue(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	if o.readOnly {
		return o.js.KeyValue(ctx, cfg.Bucket)
	}
	return o.js.CreateOrUpdateKeyValue(ctx, cfg)
}

func (o opener) objects(ctx context.Context, cfg jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	if o.readOnly {
		return o.js.ObjectStore(ctx, cfg.Bucket)
	}
	return o.js.CreateOrUpdateObjectStore(ctx, cfg)
}

// openSides opens the streams beside the log concurrently, because each open takes several round trips in a cluster.
func (s *Store) openSides(ctx context.Context, js opener) error {
	return runAll(
		func() (err error) {
			s.points, err = js.keyValue(ctx, jetstream.KeyValueConfig{
				Bucket: pointsBucket, Description: "named checkpoints of tasks", Replicas: s.cfg.Replicas,
				History: pointsHistory,
			})
			return err
		},
		func() (err error) {
			s.tokens, err = js.keyValue(ctx, jetstream.KeyValueConfig{
				Bucket: tokensBucket, Description: "bearer tokens, by the digests of their secrets", Replicas: s.cfg.Replicas,
			})
			return err
		},
		func() (err error) {
			s.sessions, err = js.keyValue(ctx, jetstream.KeyValueConfig{
				Bucket: sessionsBucket, Description: "sessions of MCP clients", Replicas: s.cfg.Replicas,
				TTL: sessionTTL, MaxValueSize: sessionRecord + 1<<10, // including headers
			})
			return err
		},
		func() (err error) { s.messages, err = js.stream(ctx, s.cfg.messagesConfig()); return err },
		func() error { return s.openArchive(ctx, js) },
		func() (err error) {
			s.blobs, err = js.objects(ctx, jetstream.ObjectStoreConfig{
				Bucket: blobsBucket, Description: "large values by their digest", Replicas: s.cfg.Replicas,
			})
			return err
		},
	)
}

// runAll calls functions concurrently and waits for all. It returns the first error in the order of the functions.
func runAll(fns ...func() error) error {
	errs := make([]error, len(fns))
	var group sync.WaitGroup
	for i, fn := range fns {
		group.Go(func() { errs[i] = fn() })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// syncMeta syncs the file system of an embedded server, to make the files that describe the streams durable. The server
// does not sync these files, and without them a stream is lost as a whole after a power loss.
func (b *streams) syncMeta() error {
	if b.conn.target.server == nil {
		return nil
	}
	return syncDisk(b.conn.target.server.cfg.DataDir)
}

func openFault(err error) error {
	var apiErr *jetstream.APIError
	if errors.As(err, &apiErr) && isFullCode(apiErr.ErrorCode) {
		return fault.Wrap(fault.DiskFull, err, "the NATS server has no room for the log").WithHint(serverLimits)
	}
	return fault.Wrap(fault.Unavailable, err, "the log cannot be opened").
		WithHint("check that the server has JetStream switched on and that the credential may use it")
}
