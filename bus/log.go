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

// Read implements events.Log. A history is in the live log or, as a whole, in the archive. It reads the archive
// first: after a kill the server brings removed messages back, the last ones of a block that
// records other removals, and the first commits of an archived history must not look like an
// open task.
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
			return false, true // the rest of an interrupted archiving
		}
		rev++
		if err == nil && h.Rev != rev {
			err = missingRevision(task, rev, e.Seq)
		}
		if err == nil {
			err = ar.unconfirmed(e.Seq)
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

// liveName returns the name of the live stream, or of the archive if the live one is lost: the archive has no live
// subjects, so that readers find only archived histories.
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
	// headBatch is the most headers of one fetch.
	headBatch = 4096
	// headWait is how long one fetch may wait; it only waits if tasks left the log during the scan, or
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
		s.conn.scanHeads(ctx, s.past, archiveAll, pastHead, yield)
	}
}

// HasArchived implements events.Log. It counts the messages of the archive.
func (s *Store) HasArchived(ctx context.Context) (bool, error) {
	info, err := s.past.Info(ctx)
	if err != nil {
		return false, readFault(err)
	}
	return info.State.Msgs > 0, nil
}

// headOf returns the head in a message; false for a message without one.
type headOf func(subject string, header nats.Header, seq uint64) (events.Head, bool, error)

// scanHeads scans all messages and yields the last head of each task. A scan of only the newest message of
// each subject would be half as long, but the server sometimes leaves subjects out of it (seen after a
// kill, with 2.15.2), and reports nothing.
func (c *Conn) scanHeads(ctx context.Context, stream jetstream.Stream, all string, head headOf, yield func(events.Head, error) bool) {
	last := map[events.TaskID]events.Head{}
	pos := headScan{conn: c, head: head}
	cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: all}
	err := pos.run(ctx, stream, cfg, func(h events.Head, _ error) bool {
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

// run fetches batch after batch. It repeats a fetch that returns too few messages, so that a lost wake-up of
// the client costs at most headWait.
func (p *headScan) run(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	if p.conn.replicated.Load() {
		return p.walk(ctx, stream, cfg, yield)
	}
	cfg.AckPolicy, cfg.HeadersOnly, cfg.MemoryStorage, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, true, time.Minute
	c, err := createScan(ctx, stream, cfg)
	if err != nil {
		return readFault(err)
	}
	defer func() { // if this fails, the consumer expires
		_ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name)
	}()
	p.left = c.CachedInfo().NumPending
	for p.left > 0 && err == nil && !p.stopped {
		if err = ctx.Err(); err != nil {
			return fault.From(err)
		}
		err = p.fetch(c, yield)
	}
	return err
}

// walk reads the messages without a consumer: the server of a consumer of a replicated stream may lag behind the leader.
func (p *headScan) walk(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	for e, err := range p.conn.walk(ctx, stream.CachedInfo().Config.Name, cfg.FilterSubject, max(cfg.OptStartSeq, 1), math.MaxUint64) {
		if err != nil {
			return err
		}
		h, ok, err := p.head(e.subject, e.header, e.Seq)
		if err != nil {
			return err
		}
		if ok && !yield(h, nil) {
			p.stopped = true
			return nil
		}
	}
	return nil
}

// createScan creates a consumer. It allows the server time to visit every subject, of which there may be millions.
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
	stopped bool   // the reader wants no more
}

func (p *headScan) fetch(c jetstream.Consumer, yield func(events.Head, error) bool) error {
	count := min(p.left, headBatch)
	batch, err := c.Fetch(int(count), jetstream.FetchMaxWait(headWait))
	if err != nil {
		return readFault(err)
	}
	before := p.seen
	for m := range batch.Messages() {
		if p.stopped {
			continue // the channel must be emptied
		}
		if err := p.take(m, yield); err != nil {
			p.stopped = true
			return err
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoHeartbeat) {
		return readFault(err)
	}
	if p.seen < before+count && !p.stopped { // some were archived in the meantime, or a message was lost
		return p.recount(c)
	}
	return nil
}

func (p *headScan) take(m jetstream.Msg, yield func(events.Head, error) bool) error {
	meta, err := m.Metadata()
	if err != nil {
		return readFault(err)
	}
	p.seen++
	if meta.Sequence.Consumer != p.seen {
		return readFault(errors.New("the scan of the log lost a message"))
	}
	p.left = meta.NumPending
	h, ok, err := p.head(m.Subject(), m.Headers(), meta.Sequence.Stream)
	if err != nil {
		return err
	}
	p.stopped = ok && !yield(h, nil)
	return nil
}

func (p *headScan) recount(c jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	p.left = info.NumPending
	if info.Delivered.Consumer != p.seen {
		return readFault(errors.New("the scan of the log lost a message"))
	}
	return nil
}
