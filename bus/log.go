package bus

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Read implements events.Log. A history is in the live log or, as a whole, in the archive. Read looks in the archive
// first: after a kill the server may restore messages that had been removed from the live log. If those are the first
// commits of an archived history, the live log alone would show an open task.
func (ar *archive) Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		if _, err := events.ParseTaskID(string(task)); err != nil {
			yield(events.Stored{}, err)
			return
		}
		if err := ar.lostData.goneFault(task); err != nil {
			yield(events.Stored{}, err)
			return
		}
		if ar.filter.mayContain(task, time.Now()) {
			if parts, err := ar.archived(ctx, task); err != nil || parts != nil {
				ar.readParts(ctx, task, parts, err, from, yield)
				return
			}
		}
		if whole, goOn := ar.readLive(ctx, task, from, yield); !whole && goOn {
			ar.readArchived(ctx, task, from, yield)
		}
	}
}

// readLive yields the live commits of a task. It reports whether the history is complete, and whether
// the reader wants more.
func (ar *archive) readLive(ctx context.Context, task events.TaskID, from uint64, yield func(events.Stored, error) bool) (whole, goOn bool) {
	rev := uint64(0)
	for e, err := range ar.conn.walk(ctx, ar.liveName(), liveSubject(task), 1, math.MaxUint64) {
		if fault.Has(err, fault.DataLoss) && ar.inArchive(ctx, task) {
			ar.readArchived(ctx, task, max(from, rev+1), yield)
			return true, false
		}
		if err != nil {
			yield(events.Stored{}, err)
			return rev > 0, false
		}
		h, err := decodeHead(e.subject, e.header.Get(headHeader), e.Seq)
		if err == nil && rev == 0 && h.Rev > 1 {
			return false, true // left by an interrupted archiving
		}
		rev++
		if err == nil && h.Rev != rev {
			err = missingRevision(task, rev, e.Seq)
		}
		if err == nil {
			err = ar.checkDurable(e.Seq)
		}
		if err != nil {
			yield(events.Stored{}, err)
			return true, false
		}
		if rev >= from && !yield(e.Stored, nil) {
			return true, false
		}
	}
	return rev > 0, true
}

// inArchive reports whether the whole history of a task is in the archive.
func (ar *archive) inArchive(ctx context.Context, task events.TaskID) bool {
	parts, err := ar.archived(ctx, task)
	return err == nil && len(parts) > 0
}

func missingRevision(task events.TaskID, rev, seq uint64) error {
	return fault.New(fault.DataLoss, "task %s: revision %d is not in the log before position %d", task, rev, seq).
		WithField("task").WithHint("run: orch verify")
}

// liveName returns the name of the live stream. If that stream is lost it returns the name of the archive, which has no
// live subjects: readers then find only archived histories.
func (b *streams) liveName() string {
	if b.live == nil {
		return archiveStream
	}
	return liveStream
}

// Scan implements events.Log.
func (s *Store) Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		last, err := s.lastSeq(ctx)
		if err != nil {
			yield(events.Stored{}, err)
			return
		}
		for e, err := range s.conn.walk(ctx, liveStream, liveAll, from, last) {
			if !yield(e.Stored, err) || err != nil {
				return
			}
		}
	}
}

// lastSeq returns the newest position of the live log.
func (b *streams) lastSeq(ctx context.Context) (uint64, error) {
	if b.live == nil {
		return 0, b.loss.Load()
	}
	info, err := b.live.Info(ctx)
	if err != nil {
		return 0, readFault(err)
	}
	return info.State.LastSeq, nil
}

const (
	// headBatch is the maximum number of headers in one fetch.
	headBatch = 4096
	// headWait is how long one fetch may wait. A fetch only waits if tasks were archived during the scan, or if
	// the connection lost messages.
	headWait = 250 * time.Millisecond
)

// Heads implements events.Log: a scan of the headers of all messages.
func (s *Store) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		if s.live == nil {
			yield(events.Head{}, s.loss.Load())
			return
		}
		s.conn.scanHeads(ctx, s.live, liveAll, liveHead, yield)
	}
}

// ArchivedHeads implements events.Log: a scan of the headers of all messages of the archive.
func (s *Store) ArchivedHeads(ctx context.Context) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		s.conn.scanHeads(ctx, s.archiveLog, archiveAll, archivedHead, yield)
	}
}

// HasArchived implements events.Log. It counts the messages of the archive.
func (s *Store) HasArchived(ctx context.Context) (bool, error) {
	info, err := s.archiveLog.Info(ctx)
	if err != nil {
		return false, readFault(err)
	}
	return info.State.Msgs > 0, nil
}

// headOf decodes the head in a message; false if the message has no head.
type headOf func(subject string, header nats.Header, seq uint64) (events.Head, bool, error)

// scanHeads scans all messages of a stream and yields the last head of each task. A scan of only the newest message of
// each subject would take half the time, but after a kill nats-server 2.15.2 sometimes omits subjects from it without
// an error.
func (c *Conn) scanHeads(ctx context.Context, stream jetstream.Stream, all string, head headOf, yield func(events.Head, error) bool) {
	last := map[events.TaskID]events.Head{}
	scan := headScan{conn: c, head: head}
	cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: all}
	err := scan.run(ctx, stream, cfg, func(h events.Head, _ error) bool {
		last[h.Task] = h
		return true
	})
	if err != nil {
		yield(events.Head{}, err)
		return
	}
	for _, h := range last {
		if !yield(h, nil) {
			return
		}
	}
}

// run scans the messages that cfg selects and yields their heads. It fetches them in batches, and repeats a fetch that
// returns too few messages, so that a lost wake-up of the client costs at most headWait.
func (s *headScan) run(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	if s.conn.replicated.Load() {
		return s.walk(ctx, stream, cfg, yield)
	}
	cfg.AckPolicy, cfg.HeadersOnly, cfg.MemoryStorage, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, true, time.Minute
	c, err := createScan(ctx, stream, cfg)
	if err != nil {
		return readFault(err)
	}
	defer func() { // if this fails, the consumer expires
		_ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name)
	}()
	s.left = c.CachedInfo().NumPending
	for s.left > 0 && err == nil && !s.stopped {
		if err = ctx.Err(); err != nil {
			return fault.From(err)
		}
		err = s.fetch(c, yield)
	}
	return err
}

// walk reads the messages without a consumer. The consumer of a replicated stream may be on a server that lags behind the leader.
func (s *headScan) walk(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	for e, err := range s.conn.walk(ctx, stream.CachedInfo().Config.Name, cfg.FilterSubject, max(cfg.OptStartSeq, 1), math.MaxUint64) {
		if err != nil {
			return err
		}
		h, ok, err := s.head(e.subject, e.header, e.Seq)
		if err != nil {
			return err
		}
		if ok && !yield(h, nil) {
			s.stopped = true
			return nil
		}
	}
	return nil
}

// createScan creates a consumer. The server visits every subject for it, and there may be millions: so the timeout is long.
func createScan(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	const within = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return stream.CreateConsumer(ctx, cfg)
}

// headScan is the progress of one scan.
type headScan struct {
	conn    *Conn
	head    headOf
	seen    uint64 // messages delivered
	left    uint64 // messages not yet delivered
	stopped bool   // yield has returned false
}

// fetch yields the heads in the next batch.
func (s *headScan) fetch(c jetstream.Consumer, yield func(events.Head, error) bool) error {
	count := min(s.left, headBatch)
	batch, err := c.Fetch(int(count), jetstream.FetchMaxWait(headWait))
	if err != nil {
		return readFault(err)
	}
	before := s.seen
	for m := range batch.Messages() {
		if s.stopped {
			continue // the channel must be emptied
		}
		if err := s.receive(m, yield); err != nil {
			s.stopped = true
			return err
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoHeartbeat) {
		return readFault(err)
	}
	if s.seen < before+count && !s.stopped { // commits were archived in the meantime, or a message was lost
		return s.recount(c)
	}
	return nil
}

// receive yields the head in a delivered message. UNAVAILABLE if a message before it was lost.
func (s *headScan) receive(m jetstream.Msg, yield func(events.Head, error) bool) error {
	meta, err := m.Metadata()
	if err != nil {
		return readFault(err)
	}
	s.seen++
	if meta.Sequence.Consumer != s.seen {
		return readFault(errors.New("the scan of the log lost a message"))
	}
	s.left = meta.NumPending
	h, ok, err := s.head(m.Subject(), m.Headers(), meta.Sequence.Stream)
	if err != nil {
		return err
	}
	s.stopped = ok && !yield(h, nil)
	return nil
}

// recount sets left to the server's count of undelivered messages. UNAVAILABLE if a delivered message was lost.
func (s *headScan) recount(c jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	s.left = info.NumPending
	if info.Delivered.Consumer != s.seen {
		return readFault(errors.New("the scan of the log lost a message"))
	}
	return nil
}
