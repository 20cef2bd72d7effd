package bus

import (
	"bytes"
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
	// partBytes is the size from which a history is archived in several messages.
	partBytes = 4 << 20
	// partHeader, on the last message of an archived history, is the number of its messages.
	partHeader = "Orch-Parts"
	// seqHeader, on the same message, is the position that the newest commit had in the live log. The head of
	// the task is on it as well, so that Past scans only headers.
	seqHeader = "Orch-Seq"
)

// archiveSubject returns "orch.ar.<yyyymmdd>.<task>"; the day comes from the id, so that a lookup is direct.
func archiveSubject(task events.TaskID) string {
	return archiveRoot + "." + task.Time().UTC().Format("20060102") + "." + string(task)
}

// Archive implements events.Log. The history is durable in the archive before it is removed from the live log.
// The next call completes an interrupted one. A node that has lost its lease leaves that to the next node: the
// server purges on request, whatever the epoch.
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
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	upTo, err := ar.copyToArchive(ctx, task)
	if err != nil {
		return err
	}
	failpoint.Pass(failpoint.Archived)
	ar.filter.add(task, time.Now())
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	if err := ar.removeLive(ctx, task, upTo); err != nil {
		return err
	}
	if leaseLost(ar.cfg.Lease) {
		return fenced()
	}
	return nil
}

// copyToArchive copies the whole history of a task to the archive, and returns the position of its newest commit in the live log.
func (ar *archive) copyToArchive(ctx context.Context, task events.TaskID) (upTo uint64, err error) {
	parts, whole, err := ar.parts(ctx, task)
	switch {
	case err != nil:
		return 0, err
	case whole:
		return ar.extendArchive(ctx, task, parts)
	default:
		return ar.writeArchive(ctx, task, parts)
	}
}

// removeLive removes an archived history from the live log, its first commit before the others: the server
// removes whole files before it records other removals, and a history that has lost its end, but not its
// beginning, would look like an open one. Commits after the archived ones stay.
func (ar *archive) removeLive(ctx context.Context, task events.TaskID, upTo uint64) error {
	subject := liveSubject(task)
	first, err := ar.conn.page(ctx, liveStream, subject, 1, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	if first[0].Seq > upTo {
		return fault.New(fault.Conflict, "task %s has changed while it was being archived", task).WithField("task")
	}
	for _, below := range []uint64{first[0].Seq + 1, upTo + 1} {
		if err := ar.purge(ctx, ar.live, subject, below); err != nil {
			return err
		}
		if err := ar.barrier().wait(liveStream); err != nil {
			return err
		}
	}
	return nil
}

// all, as a limit of purge, stands for a position after all messages.
const all = 0

// purge removes the messages of a subject below a position. A server of a cluster repeats its purges when it restarts:
// a repeated purge of all messages ends where it ended the first time, but one with a limit beyond the end would remove later messages.
func (ar *archive) purge(ctx context.Context, stream jetstream.Stream, subject string, below uint64) error {
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
	if below != all {
		opts = append(opts, jetstream.WithPurgeSequence(below))
	}
	if err := stream.Purge(ctx, opts...); err != nil {
		return fault.Wrap(fault.Unavailable, err, "what was archived cannot be removed").WithHint("archive the task again")
	}
	return nil
}

// archived returns the messages of an archived history, or nil if the archive has none or only a part of it.
func (ar *archive) archived(ctx context.Context, task events.TaskID) ([]entry, error) {
	parts, whole, err := ar.parts(ctx, task)
	if err != nil || !whole {
		return nil, err
	}
	return parts, nil
}

// parts returns the messages of a history in the archive, and whether the history is complete.
func (ar *archive) parts(ctx context.Context, task events.TaskID) (parts []entry, whole bool, err error) {
	for e, err := range ar.conn.walk(ctx, archiveStream, archiveSubject(task), 1, math.MaxUint64) {
		if err != nil {
			return nil, false, err
		}
		parts = append(parts, e)
	}
	n := len(parts)
	return parts, n > 0 && parts[n-1].header.Get(partHeader) == strconv.Itoa(n), nil
}

// writeArchive copies the live history of a task into the archive and replaces the parts of an interrupted attempt.
// It removes nothing else: a server that lags may not have reported the newest messages.
func (ar *archive) writeArchive(ctx context.Context, task events.TaskID, partial []entry) (upTo uint64, err error) {
	subject := archiveSubject(task)
	head, err := ar.newest(ctx, task) // remove nothing unless the live log has the task
	if err != nil {
		return 0, err
	}
	if len(partial) > 0 {
		if err := ar.purge(ctx, ar.past, subject, partial[len(partial)-1].Seq+1); err != nil {
			return 0, err
		}
	}
	var body bytes.Buffer
	parts, after, last := 0, uint64(0), uint64(0)
	for c, err := range ar.Read(ctx, task, 1) {
		if err != nil {
			return 0, err
		}
		if !ar.hasRoom(&body, c.Data) {
			parts++
			if after, err = ar.publishPart(ctx, subject, body.Bytes(), after, nil); err != nil {
				return 0, err
			}
			body.Reset()
		}
		frame(&body, c)
		last = c.Seq
	}
	if last != head.seq {
		return 0, fault.New(fault.Conflict, "task %s has changed while it was being archived", task).WithField("task")
	}
	if _, err = ar.publishPart(ctx, subject, body.Bytes(), after, head.headers(parts+1)); err != nil {
		return 0, err
	}
	return last, ar.barrier().wait(archiveStream)
}

// extendArchive appends the commits to an archived history that the task got after an interrupted archiving.
// The history is complete after each of its messages, so that another interruption loses nothing.
func (ar *archive) extendArchive(ctx context.Context, task events.TaskID, parts []entry) (upTo uint64, err error) {
	tail, upTo, err := ar.tail(ctx, task, parts)
	if err != nil || len(tail) == 0 {
		return upTo, err
	}
	after := parts[len(parts)-1].Seq
	for count := len(parts) + 1; len(tail) > 0; count++ {
		var body bytes.Buffer
		n := 0
		for ; n < len(tail) && ar.hasRoom(&body, tail[n].Data); n++ {
			frame(&body, tail[n].Stored)
		}
		head := lastHead{value: tail[n-1].header.Get(headHeader), seq: tail[n-1].Seq}
		if after, err = ar.publishPart(ctx, archiveSubject(task), body.Bytes(), after, head.headers(count)); err != nil {
			return 0, err
		}
		tail = tail[n:]
	}
	return upTo, ar.barrier().wait(archiveStream)
}

// hasRoom reports whether a commit fits into the same message as others. A single commit always fits: it was one message.
func (b *streams) hasRoom(body *bytes.Buffer, data []byte) bool {
	return body.Len() == 0 || body.Len()+len(data) <= min(partBytes, b.conn.maxCommit())
}

// tail returns the live commits of a task after its archived history, without older ones. upTo is the position of the newest commit of all.
func (ar *archive) tail(ctx context.Context, task events.TaskID, parts []entry) (tail []entry, upTo uint64, err error) {
	end := parts[len(parts)-1]
	newest, _, err := pastHead(end.subject, end.header, end.Seq)
	if err != nil {
		return nil, 0, err
	}
	upTo = newest.Seq
	for e, err := range ar.conn.walk(ctx, liveStream, liveSubject(task), newest.Seq+1, math.MaxUint64) {
		if err != nil {
			return nil, 0, err
		}
		upTo = e.Seq
		h, err := decodeHead(e.subject, e.header.Get(headHeader), e.Seq)
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

// lastHead is the head of a history to be archived, as it is in the live log.
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
		return lastHead{}, fault.New(fault.NotFound, "there is no task %s", task).WithField("task")
	}
	return lastHead{value: m.header.Get(headHeader), seq: m.Seq}, nil
}

// headers returns the headers of the last message of an archived history of that many messages.
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
	var owner *jetstream.APIError
	switch {
	case !errors.As(err, &owner):
		return fault.Wrap(fault.Unavailable, err, "the history cannot be archived").WithHint("archive the task again")
	case isConflictCode(owner.ErrorCode):
		return fault.Wrap(fault.Conflict, err, "the task is being archived by another call").WithField("task")
	case isFullCode(owner.ErrorCode):
		return fault.Wrap(fault.DiskFull, err, "the NATS server takes no more").WithHint(serverLimits)
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

func (ar *archive) readArchived(ctx context.Context, task events.TaskID, from uint64, yield func(events.Stored, error) bool) {
	parts, err := ar.archived(ctx, task)
	ar.readParts(ctx, task, parts, err, from, yield)
}

// readParts yields the commits in the messages of an archived history, or err. It does not mark them as archived
// while the live log still has commits of the task: Archive removes those. If the task got more commits
// there, they follow.
func (ar *archive) readParts(ctx context.Context, task events.TaskID, parts []entry, err error, from uint64, yield func(events.Stored, error) bool) {
	left := false
	if err == nil && len(parts) > 0 && ar.live != nil {
		_, left, err = ar.nextCommit(ctx, task, 0)
	}
	var tail []entry
	if err == nil && left {
		tail, _, err = ar.tail(ctx, task, parts)
	}
	if err != nil {
		yield(events.Stored{}, err)
		return
	}
	if len(parts) == 0 {
		if err := ar.removedFault(ctx, task); err != nil {
			yield(events.Stored{}, err)
		}
		return
	}
	rev := uint64(0)
	for _, p := range parts {
		for c, err := range unframe(p.Data) {
			rev++
			c.Archived = !left
			if (err != nil || rev >= from) && !yield(c, err) || err != nil {
				return
			}
		}
	}
	for _, e := range tail {
		err := ar.unconfirmed(e.Seq)
		if rev++; rev >= from && !yield(e.Stored, err) || err != nil {
			return
		}
	}
}
