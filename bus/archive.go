package bus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

const (
	// partBytes is the maximum size of an archive message. A larger history is archived in several messages.
	partBytes = 4 << 20
	// partHeader, on the last message of an archived history, is the number of its messages.
	partHeader = "Orch-Parts"
	// seqHeader, on the same message, is the position that the newest commit had in the live log. That message has the
	// head of the task as well, so that ArchivedHeads scans only headers.
	seqHeader = "Orch-Seq"
)

// archiveSubject returns "orch.ar.<yyyymmdd>.<task>". The day is that of the task's id, so that the subject follows from the id.
func archiveSubject(task events.TaskID) string {
	return archiveRoot + "." + task.Time().UTC().Format("20060102") + "." + string(task)
}

// Archive implements events.Log. The history is durable in the archive before it is removed from the live log.
// The next call completes an interrupted archiving. A node that has lost its lease must not remove anything, because the
// server purges messages without checking the epoch; the next node completes the archiving.
func (ar *archive) Archive(ctx context.Context, task events.TaskID) error {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return err
	}
	if loss := ar.loss.Load(); loss != nil {
		return loss
	}
	release, err := ar.gate.begin(time.Now())
	if err != nil {
		return err
	}
	defer release()
	first, err := ar.attempts.begin(task, time.Now())
	if err != nil {
		return err
	}
	err = ar.move(ctx, task, first)
	ar.attempts.end(task, err)
	return err
}

// move archives a task. first is set if no archiving of it can have been interrupted, so that nobody has to look for what it left.
func (ar *archive) move(ctx context.Context, task events.TaskID, first bool) error {
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	at, err := ar.copyToArchive(ctx, task, first)
	if err == nil {
		err = ar.settle(archiveStream) // also for what an interrupted archiving has written
	}
	if err != nil {
		return err
	}
	failpoint.Pass(failpoint.Archived)
	ar.filter.add(task, time.Now())
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	if err := ar.removeLive(ctx, task, at); err != nil {
		return err
	}
	if leaseLost(ar.cfg.Lease) {
		return fenced()
	}
	return nil
}

// extent are the positions of the first and the last commit of a history in the live log. first is 0 if it is not known.
type extent struct{ first, last uint64 }

// copyToArchive copies the whole history of a task to the archive, and returns where it was in the live log. first is that of move.
func (ar *archive) copyToArchive(ctx context.Context, task events.TaskID, first bool) (extent, error) {
	if first {
		at, err := ar.writeArchive(ctx, task, ar.newHistory(ctx, task), false)
		if !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.DataLoss) {
			return at, err
		}
	} // otherwise the archive may have the history, or its beginning
	own, whole, err := ar.ownParts(ctx, task)
	if err != nil {
		return extent{}, err
	}
	if whole {
		upTo, err := ar.extendArchive(ctx, task, own)
		return extent{last: upTo}, err
	}
	grouped, err := ar.grouped(ctx, task)
	if err == nil && grouped == nil {
		_, err = ar.newest(ctx, task) // nothing is removed below if there is nothing to archive
	}
	if err == nil {
		err = ar.removePartial(ctx, task, own)
	}
	if err != nil {
		return extent{}, err
	}
	if grouped != nil {
		return ar.extendGrouped(ctx, task, grouped)
	}
	// A node that has lost its lease may add its copy to a group later, and that may lack commits. Readers look at the own subject first.
	return ar.writeArchive(ctx, task, ar.liveHistory(ctx, task), ar.cfg.Lease != nil)
}

// removeLive removes the archived commits of a task from the live log. Later commits stay. It
// removes the first commit before the rest: the server removes whole files before it records other removals, and a
// history that has lost its end but not its beginning would look like an open task.
func (ar *archive) removeLive(ctx context.Context, task events.TaskID, at extent) error {
	ar.appender.forget(task)
	subject := liveSubject(task)
	if at.first == 0 {
		first, err := ar.conn.page(ctx, liveStream, subject, 1, 1)
		if err != nil || len(first) == 0 {
			return err
		}
		at.first = first[0].Seq
	}
	if at.first > at.last {
		return fault.New(fault.Conflict, "task %s has changed while it was being archived", task).WithField("task")
	}
	for _, below := range []uint64{at.first + 1, at.last + 1} {
		if err := ar.purge(ctx, ar.live, subject, below); err != nil {
			return err
		}
		if err := ar.settle(liveStream); err != nil {
			return err
		}
	}
	return nil
}

// everything, as a limit of purge, means no limit.
const everything = 0

// purge removes the messages of a subject below a position, or everything. A server of a cluster repeats its purges when it
// restarts. A repeated purge of everything stops at the same message as before; a repeated purge with a limit beyond
// the newest message would remove later messages.
func (ar *archive) purge(ctx context.Context, stream jetstream.Stream, subject string, below uint64) error {
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
	if below != everything {
		opts = append(opts, jetstream.WithPurgeSequence(below))
	}
	if err := stream.Purge(ctx, opts...); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the archived commits cannot be removed from the log").WithHint("archive the task again")
	}
	return nil
}

// archived returns the messages of an archived history, or nil if the archive does not have the whole history.
func (ar *archive) archived(ctx context.Context, task events.TaskID) ([]entry, error) {
	parts, whole, err := ar.parts(ctx, task)
	if err != nil || !whole {
		return nil, err
	}
	return parts, nil
}

// parts returns the archive's messages of a task, and whether they are its whole history.
func (ar *archive) parts(ctx context.Context, task events.TaskID) (parts []entry, whole bool, err error) {
	if parts, whole, err = ar.ownParts(ctx, task); err != nil || whole {
		return parts, whole, err
	}
	grouped, err := ar.grouped(ctx, task)
	if err != nil || grouped == nil {
		return parts, false, err
	}
	return []entry{*grouped}, true, nil
}

// ownParts returns the messages on the archive's own subject of a task, and whether they are its whole history.
func (ar *archive) ownParts(ctx context.Context, task events.TaskID) (parts []entry, whole bool, err error) {
	for e, err := range ar.conn.walk(ctx, archiveStream, archiveSubject(task), 1, math.MaxUint64) {
		if err != nil {
			return nil, false, err
		}
		parts = append(parts, e)
	}
	n := len(parts)
	return parts, n > 0 && parts[n-1].header.Get(partHeader) == strconv.Itoa(n), nil
}

// removePartial removes the messages that an interrupted attempt has left, and nothing else: a server that lags may not have
// reported the newest messages.
func (ar *archive) removePartial(ctx context.Context, task events.TaskID, parts []entry) error {
	if len(parts) == 0 {
		return nil
	}
	return ar.purge(ctx, ar.archiveLog, archiveSubject(task), parts[len(parts)-1].Seq+1)
}

// writeArchive copies a history into the archive, and returns where it was in the live log. A short one becomes part of a group unless
// alone is set. Errors: NOT_FOUND if there are no commits.
func (ar *archive) writeArchive(ctx context.Context, task events.TaskID, commits iter.Seq2[entry, error], alone bool) (at extent, err error) {
	w := archiveWriter{archive: ar, ctx: ctx, task: task, alone: alone}
	for c, err := range commits {
		if err == nil {
			err = w.add(&c)
		}
		if err != nil {
			return extent{}, err
		}
	}
	return w.at, w.close()
}

// archiveWriter writes one history to the archive.
type archiveWriter struct {
	*archive

	ctx  context.Context //nolint:containedctx // of one history
	task events.TaskID
	body bytes.Buffer // of the next message
	// parts is the number of messages so far, after the position of the newest.
	parts int
	after uint64
	head  lastHead // of the newest commit
	at    extent
	// alone is set for a history that belongs to no group.
	alone bool
}

func (w *archiveWriter) add(c *entry) (err error) {
	if !w.hasRoom(&w.body, c.Data) {
		if w.after, err = w.publishPart(w.ctx, archiveSubject(w.task), w.body.Bytes(), w.after, nil); err != nil {
			return err
		}
		w.parts++
		w.body.Reset()
	}
	frame(&w.body, c.Stored)
	w.head = lastHead{value: archiveHead(c.header), seq: c.Seq}
	w.at = extent{cmp.Or(w.at.first, c.Seq), c.Seq}
	return nil
}

func (w *archiveWriter) close() error {
	if w.at.last == 0 {
		return noLiveTask(w.task)
	}
	if w.parts == 0 && !w.alone && w.compact.Load() && w.body.Len() <= groupBytes {
		if ok, err := w.publishGrouped(w.ctx, w.task, w.body.Bytes(), w.head); ok || err != nil {
			return err
		}
	}
	_, err := w.publishPart(w.ctx, archiveSubject(w.task), w.body.Bytes(), w.after, w.head.headers(w.parts+1))
	return err
}

// extendGrouped copies a history from its group to a subject of its own, if commits were made after an interrupted archiving.
func (ar *archive) extendGrouped(ctx context.Context, task events.TaskID, grouped *entry) (extent, error) {
	newest, _, err := archivedHead(grouped.subject, grouped.header, grouped.Seq)
	if err != nil {
		return extent{}, err
	}
	tail, upTo, err := ar.tail(ctx, task, newest)
	if err != nil || len(tail) == 0 {
		return extent{last: upTo}, err
	}
	w := archiveWriter{archive: ar, ctx: ctx, task: task, alone: true}
	for c, err := range unframe(grouped.Data) {
		if err == nil {
			err = w.add(&entry{Stored: c})
		}
		if err != nil {
			return extent{}, err
		}
	}
	for i := range tail {
		if err := w.add(&tail[i]); err != nil {
			return extent{}, err
		}
	}
	if err := w.close(); err != nil {
		return extent{}, err
	}
	if err := ar.settle(archiveStream); err != nil {
		return extent{}, err
	}
	return extent{last: upTo}, ar.removeGrouped(ctx, task)
}

// extendArchive appends to an archived history the commits that were made after an interrupted archiving. Each message
// that it publishes completes the history, so that another interruption loses nothing.
func (ar *archive) extendArchive(ctx context.Context, task events.TaskID, parts []entry) (upTo uint64, err error) {
	end := parts[len(parts)-1]
	newest, _, err := archivedHead(end.subject, end.header, end.Seq)
	if err != nil {
		return 0, err
	}
	tail, upTo, err := ar.tail(ctx, task, newest)
	if err != nil || len(tail) == 0 {
		return upTo, err
	}
	after := end.Seq
	for count := len(parts) + 1; len(tail) > 0; count++ {
		var body bytes.Buffer
		n := 0
		for ; n < len(tail) && ar.hasRoom(&body, tail[n].Data); n++ {
			frame(&body, tail[n].Stored)
		}
		head := lastHead{value: archiveHead(tail[n-1].header), seq: tail[n-1].Seq}
		if after, err = ar.publishPart(ctx, archiveSubject(task), body.Bytes(), after, head.headers(count)); err != nil {
			return 0, err
		}
		tail = tail[n:]
	}
	return upTo, nil
}

// hasRoom reports whether the message with this body has room for another commit. A single commit always fits, because it
// was one message in the live log.
func (b *streams) hasRoom(body *bytes.Buffer, data []byte) bool {
	return body.Len() == 0 || body.Len()+len(data) <= min(partBytes, b.conn.maxCommit())
}

// tail returns the live commits of a task that follow its archived history, which ends with newest. upTo is the position of
// the task's newest commit.
func (ar *archive) tail(ctx context.Context, task events.TaskID, newest events.Head) (tail []entry, upTo uint64, err error) {
	upTo = newest.Seq
	for e, err := range ar.conn.walk(ctx, liveStream, liveSubject(task), newest.Seq+1, math.MaxUint64) {
		if err != nil {
			return nil, 0, err
		}
		upTo = e.Seq
		h, err := decodeHead(task, e.header.Get(headHeader), e.Seq)
		if err == nil {
			err = e.damage
		}
		switch {
		case err != nil:
			return nil, 0, err
		case h.Rev == newest.Rev+1:
			tail, newest = append(tail, e), h
		case h.Rev > newest.Rev:
			return nil, 0, missingRevision(task, newest.Rev+1, e.Seq)
		}
	}
	return tail, upTo, nil
}

// lastHead is the head of a history to be archived.
type lastHead struct {
	value string
	seq   uint64
}

// newest returns the head of a live task, or NOT_FOUND.
func (ar *archive) newest(ctx context.Context, task events.TaskID) (lastHead, error) {
	m, err := ar.conn.newest(ctx, ar.live, liveSubject(task))
	if err != nil {
		return lastHead{}, readFault(err)
	}
	if m == nil {
		return lastHead{}, noLiveTask(task)
	}
	return lastHead{value: archiveHead(m.header), seq: m.Seq}, nil
}

func noLiveTask(task events.TaskID) error {
	return fault.New(fault.NotFound, "there is no task %s", task).WithField("task")
}

// headers returns the headers of the last message of an archived history; parts is the number of its messages.
func (h lastHead) headers(parts int) nats.Header {
	return nats.Header{
		partHeader: {strconv.Itoa(parts)}, headHeader: {h.value}, seqHeader: {strconv.FormatUint(h.seq, 10)},
	}
}

// publishPart appends a message to the archive; only the last one of a history has headers.
func (ar *archive) publishPart(ctx context.Context, subject string, data []byte, after uint64, header nats.Header) (uint64, error) {
	if err := ar.space.checkArchiveRoom(len(data)); err != nil {
		return 0, err
	}
	defer ar.touched.Store(true)
	m := &nats.Msg{Subject: subject, Data: data, Header: header}
	ack, err := ar.conn.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(after))
	if err != nil {
		return 0, archiveFault(err)
	}
	failpoint.Pass(failpoint.ArchivePart)
	return ack.Sequence, nil
}

func archiveFault(err error) error {
	var apiErr *jetstream.APIError
	switch {
	case !errors.As(err, &apiErr):
		return fault.Wrap(fault.Unavailable, err, "the history cannot be archived").WithHint("archive the task again")
	case isConflictCode(apiErr.ErrorCode):
		return fault.Wrap(fault.Conflict, err, "the task is being archived by another call").WithField("task")
	case isFullCode(apiErr.ErrorCode):
		return fault.Wrap(fault.DiskFull, err, "the NATS server has reached its limits").WithHint(serverLimits)
	default:
		return fault.Wrap(fault.Unavailable, err, "the history cannot be archived").WithHint("archive the task again")
	}
}

// frame appends "<position> <length>\n<commit>\n" to b.
func frame(b *bytes.Buffer, c events.Stored) {
	b.WriteString(strconv.FormatUint(c.Seq, 10) + " " + strconv.Itoa(len(c.Data)) + "\n")
	b.Write(c.Data)
	b.WriteByte('\n')
}

// unframe yields the commits of an archive message, or DATA_LOSS if it is damaged.
func unframe(data []byte) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		for len(data) > 0 {
			c, rest, ok := splitFrame(data)
			if !ok {
				yield(events.Stored{}, fault.New(fault.DataLoss, "an archived history is damaged").
					WithHint("run: orch verify"))
				return
			}
			if !yield(c, nil) {
				return
			}
			data = rest
		}
	}
}

func splitFrame(data []byte) (c events.Stored, rest []byte, ok bool) {
	line, body, found := bytes.Cut(data, []byte("\n"))
	seq, size, two := bytes.Cut(line, []byte(" "))
	if !found || !two {
		return c, nil, false
	}
	var err error
	if c.Seq, err = strconv.ParseUint(string(seq), 10, 64); err != nil {
		return c, nil, false
	}
	n, err := strconv.Atoi(string(size))
	if err != nil || n < 0 || n >= len(body) || body[n] != '\n' {
		return c, nil, false
	}
	c.Data = body[:n:n]
	return c, body[n+1:], true
}
