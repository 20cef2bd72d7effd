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
		from := max(from, 1)
		if ar.filter.mayContain(task, time.Now()) {
			last, err := ar.lastPart(ctx, task)
			if hole := (groupHoleError{}); err != nil && !errors.As(err, &hole) { // with a hole, it is most likely another task
				yield(events.Stored{}, err)
				return
			}
			if last != nil {
				ar.readParts(ctx, task, last, from, yield)
				return
			}
		}
		if whole, goOn := ar.readLive(ctx, task, from, yield); !whole && goOn {
			ar.readArchived(ctx, task, from, yield)
		}
	}
}

// readLive yields the live commits of a task, starting at revision from. It reports whether the history is complete, and
// whether the reader wants more.
func (ar *archive) readLive(ctx context.Context, task events.TaskID, from uint64, yield func(events.Stored, error) bool) (whole, goOn bool) {
	at, err := ar.placeBefore(ctx, task, from)
	if err != nil {
		yield(events.Stored{}, err)
		return false, false
	}
	return ar.walkLive(ctx, task, at, from, yield)
}

// walkLive is like readLive. It begins at the given place, where it first checks that the log still has the commit.
func (ar *archive) walkLive(ctx context.Context, task events.TaskID, at place, from uint64, yield func(events.Stored, error) bool) (whole, goOn bool) {
	last := place{rev: at.rev - 1}
	defer func() {
		if last.seq > 0 {
			ar.bookmarks.move(task, at, last)
		}
	}()
	for e, err := range ar.liveFrom(ctx, task, at) {
		if err == nil {
			err = e.damage
		}
		if fault.Has(err, fault.DataLoss) && ar.inArchive(ctx, task) {
			ar.readArchived(ctx, task, max(from, last.rev+1), yield)
			return true, false
		}
		if err != nil {
			yield(events.Stored{}, err)
			return false, false
		}
		h, err := decodeHead(task, e.header.Get(headHeader), e.Seq)
		if err == nil && last.seq == 0 && h.Rev != at.rev {
			return ar.leave(ctx, task, at, from, yield)
		}
		last = place{rev: last.rev + 1, seq: e.Seq}
		if err == nil && h.Rev != last.rev {
			err = missingRevision(task, last.rev, e.Seq)
		}
		if err == nil {
			err = ar.checkDurable(e.Seq)
		}
		if err != nil {
			yield(events.Stored{}, err)
			return true, false
		}
		if last.rev >= from && !yield(e.Stored, nil) {
			return true, false
		}
	}
	if last.seq == 0 {
		return ar.leave(ctx, task, at, from, yield)
	}
	return true, true
}

// leave continues walkLive after it has found no commit, or another one, at the place where it began. If that was the
// beginning, an archiving has removed the first commits or all; otherwise the walk begins again, there.
func (ar *archive) leave(ctx context.Context, task events.TaskID, at place, from uint64, yield func(events.Stored, error) bool) (whole, goOn bool) {
	if at == beginning {
		return false, true
	}
	return ar.walkLive(ctx, task, beginning, from, yield)
}

// inArchive reports whether the whole history of a task is in the archive.
func (ar *archive) inArchive(ctx context.Context, task events.TaskID) bool {
	last, err := ar.lastPart(ctx, task)
	return err == nil && last != nil
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
			if err == nil {
				err = e.damage
			}
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
	info, err := b.conn.info(ctx, b.live)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

const (
	// headBatch is the maximum number of headers in one fetch.
	headBatch = 4096
	// headWait is how long one fetch may wait. A fetch only waits if tasks were archived during the scan, or if
	// the connection lost messages.
	headWait = 250 * time.Millisecond
	// maxHeadWait limits how long a fetch may wait after losses.
	maxHeadWait = 8 * time.Second
)

// Heads implements events.Log: a scan of the headers of all messages. A scan of only the newest message of each subject would
// take half the time, but after a kill nats-server 2.15.2 sometimes omits subjects from it without an error.
func (s *Store) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		if s.live == nil {
			yield(events.Head{}, s.loss.Load())
			return
		}
		yieldLast(yield, func(use func(events.Head, error) bool) error { return s.scanLive(ctx, 0, use) })
	}
}

// ArchivedHeads implements events.Log: a scan of the headers of all messages of the archive.
func (s *Store) ArchivedHeads(ctx context.Context) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		yieldLast(yield, func(use func(events.Head, error) bool) error {
			scan := headScan{conn: s.conn, head: archivedHead}
			return scan.run(ctx, s.archiveLog, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: archiveAll}, use)
		})
	}
}

// HasArchived implements events.Log. It counts the messages of the archive.
func (s *Store) HasArchived(ctx context.Context) (bool, error) {
	info, err := s.conn.info(ctx, s.archiveLog)
	if err != nil {
		return false, err
	}
	return info.State.Msgs > 0, nil
}

// headOf decodes the head in a message; false if the message has no head.
type headOf func(subject string, header nats.Header, seq uint64) (events.Head, bool, error)

// yieldLast yields the last head of each task that a scan finds, or its error.
func yieldLast(yield func(events.Head, error) bool, scan func(use func(events.Head, error) bool) error) {
	last := map[events.TaskID]events.Head{}
	err := scan(func(h events.Head, _ error) bool {
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

// errLost is the error of a fetch when a delivered message did not arrive. On a loaded machine a fetch may end before the
// messages that the server has sent for it arrive, and the client then drops them.
var errLost = errors.New("the scan of the log lost a message")

// maxLosses is how often in succession a scan may lose a message before any other arrives.
const maxLosses = 10

// run scans the messages that cfg selects and yields their heads. After a lost message it continues behind the last message
// before the loss, and waits longer for each fetch. Errors: UNAVAILABLE, or those of head.
func (s *headScan) run(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	if s.conn.replicated.Load() {
		return s.walk(ctx, stream, cfg, yield)
	}
	cfg.AckPolicy, cfg.HeadersOnly, cfg.MemoryStorage, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, true, time.Minute
	s.wait = headWait
	for losses := 0; ; losses++ {
		before := s.last
		err := s.consume(ctx, stream, cfg, yield)
		if !errors.Is(err, errLost) {
			return err
		}
		if s.last > before {
			losses = 0
			cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.last+1
		}
		if losses == maxLosses {
			return readFault(err)
		}
		s.wait = min(2*s.wait, maxHeadWait)
	}
}

// consume fetches the messages that cfg selects in batches. It repeats a fetch that returns too few messages, so that a lost
// wake-up of the client costs at most s.wait. It returns errLost if a message was lost.
func (s *headScan) consume(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig, yield func(events.Head, error) bool) error {
	c, err := createScan(ctx, stream, cfg)
	if err != nil {
		return readFault(err)
	}
	defer func() { // if this fails, the consumer expires
		_ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name)
	}()
	s.seen, s.left = 0, c.CachedInfo().NumPending
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
	wait    time.Duration // how long a fetch may wait
	last    uint64        // the position of the last message that was received
	seen    uint64        // messages delivered by the consumer
	left    uint64        // messages not yet delivered by the consumer
	stopped bool          // yield has returned false
}

// fetch yields the heads in the next batch.
func (s *headScan) fetch(c jetstream.Consumer, yield func(events.Head, error) bool) error {
	count := min(s.left, headBatch)
	batch, err := c.Fetch(int(count), jetstream.FetchMaxWait(s.wait))
	if err != nil {
		return readFault(err)
	}
	before := s.seen
	for m := range batch.Messages() { // the channel must be emptied
		if err == nil && !s.stopped {
			err = s.receive(m, yield)
		}
	}
	if err != nil {
		return err
	}
	if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoHeartbeat) {
		return readFault(err)
	}
	if s.seen < before+count && !s.stopped { // commits were archived in the meantime, or a message was lost
		return s.recount(c)
	}
	return nil
}

// receive yields the head in a delivered message. It returns errLost if a message before it was lost.
func (s *headScan) receive(m jetstream.Msg, yield func(events.Head, error) bool) error {
	meta, err := m.Metadata()
	if err != nil {
		return readFault(err)
	}
	if meta.Sequence.Consumer != s.seen+1 {
		return errLost
	}
	s.seen++
	h, ok, err := s.head(m.Subject(), m.Headers(), meta.Sequence.Stream)
	if err != nil {
		return err
	}
	s.left, s.last = meta.NumPending, meta.Sequence.Stream
	s.stopped = ok && !yield(h, nil)
	return nil
}

// recount sets left to the server's count of undelivered messages. It returns errLost if a delivered message was lost.
func (s *headScan) recount(c jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	var info *jetstream.ConsumerInfo
	err := s.conn.retry(ctx, func(ctx context.Context) (err error) {
		info, err = c.Info(ctx)
		return err
	})
	if err != nil {
		return readFault(err)
	}
	s.left = info.NumPending
	if info.Delivered.Consumer != s.seen {
		return errLost
	}
	return nil
}
