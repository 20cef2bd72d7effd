package bus

import (
	"context"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// lastPart is the last message of an archived history. It has the head of the task.
type lastPart struct {
	entry

	head  events.Head
	parts uint64 // the number of messages of the history
}

// lastPart returns the last message of an archived history; nil if the archive does not have the whole history.
func (ar *archive) lastPart(ctx context.Context, task events.TaskID) (*lastPart, error) {
	e, err := ar.newestPart(ctx, task)
	if err != nil {
		return nil, err
	}
	last, err := ar.lastPartIn(ctx, task, e)
	if last != nil || err != nil {
		return last, err
	}
	if e, err = ar.grouped(ctx, task); err != nil {
		return nil, err
	}
	return ar.lastPartIn(ctx, task, e)
}

// lastPartIn returns the last message of an archived history, if e is that.
func (ar *archive) lastPartIn(ctx context.Context, task events.TaskID, e *entry) (*lastPart, error) {
	if e == nil || e.header.Get(partHeader) == "" {
		return nil, nil //nolint:nilnil // nil means that the archive does not have the whole history
	}
	parts, err := strconv.ParseUint(e.header.Get(partHeader), 10, 64)
	if err != nil {
		return nil, damagedHead(task, e.Seq, err)
	}
	head, _, err := archivedHead(e.subject, e.header, e.Seq)
	if err != nil {
		return nil, err
	}
	if parts > 1 {
		if whole, err := ar.hasParts(ctx, task, parts); err != nil || !whole {
			return nil, err
		}
	}
	return &lastPart{entry: *e, head: head, parts: parts}, nil
}

// newestPart returns the newest message on a task's own subject in the archive; nil if there is none. It returns DATA_LOSS if
// there are messages although the newest of them cannot be read. Most tasks have none, so it asks for the first one first.
func (ar *archive) newestPart(ctx context.Context, task events.TaskID) (*entry, error) {
	subject := archiveSubject(task)
	for again := false; ; again = true {
		first, err := ar.conn.next(ctx, archiveStream, subject, 1)
		if err != nil || first == nil {
			return nil, err
		}
		e, err := ar.conn.newest(ctx, ar.archiveLog, subject)
		if err != nil {
			return nil, readFault(err)
		}
		if e != nil {
			return e, nil
		}
		if again {
			return nil, errHole(first.Seq)
		}
		// the messages were removed between the two requests, or are damaged
	}
}

// hasParts reports whether the archive has that many messages of a task.
func (ar *archive) hasParts(ctx context.Context, task events.TaskID, parts uint64) (bool, error) {
	subject := archiveSubject(task)
	info, err := ar.archiveLog.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return false, readFault(err)
	}
	return info.State.Subjects[subject] == parts, nil
}

// readArchived yields the archived commits of a task, starting at revision from.
func (ar *archive) readArchived(ctx context.Context, task events.TaskID, from uint64, yield func(events.Stored, error) bool) {
	none, err := ar.hasNothing(ctx, task)
	var last *lastPart
	if err == nil && !none {
		last, err = ar.lastPart(ctx, task)
	}
	if err == nil && last == nil {
		err = ar.removedFault(ctx, task)
	}
	if err != nil {
		yield(events.Stored{}, err)
		return
	}
	if last != nil {
		ar.readParts(ctx, task, last, from, yield)
	}
}

// readParts yields the commits of an archived history, starting at revision from. If the live log still has commits of the
// task, readParts does not mark the commits as archived: Archive must be called again to remove the live ones. It then also
// yields the live commits that follow the archived history.
func (ar *archive) readParts(ctx context.Context, task events.TaskID, last *lastPart, from uint64, yield func(events.Stored, error) bool) {
	left, tail, err := ar.leftLive(ctx, task, last)
	if err != nil {
		yield(events.Stored{}, err)
		return
	}
	note := importNote(last.header)
	for c, err := range ar.partsFrom(ctx, task, last, from) {
		c.Archived = !left && err == nil
		c.Import = note
		if !yield(c, err) || err != nil {
			return
		}
	}
	rev := last.head.Rev
	for _, e := range tail {
		err := ar.checkDurable(e.Seq)
		if rev++; rev >= from && !yield(e.Stored, err) || err != nil {
			return
		}
	}
}

// leftLive reports whether the live log still has commits of an archived task, and returns those that follow the archived
// history.
func (ar *archive) leftLive(ctx context.Context, task events.TaskID, last *lastPart) (left bool, tail []entry, err error) {
	if ar.live == nil {
		return false, nil, nil
	}
	if _, left, err = ar.nextCommit(ctx, task, 0); err != nil || !left {
		return false, nil, err
	}
	tail, _, err = ar.tail(ctx, task, last.head)
	return true, tail, err
}

// partsFrom yields the commits in the messages of an archived history, starting at revision from.
func (ar *archive) partsFrom(ctx context.Context, task events.TaskID, last *lastPart, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		if from > last.head.Rev {
			return
		}
		p, err := ar.partWith(ctx, task, last, from)
		if err != nil {
			yield(events.Stored{}, err)
			return
		}
		rev := p.before
		for e, err := range ar.partsAfter(ctx, task, p, last) {
			if err != nil {
				yield(events.Stored{}, err)
				return
			}
			for c, err := range unframe(e.Data) {
				if rev++; (err != nil || rev >= from) && !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// partsAfter yields the messages of an archived history, beginning with p.
func (ar *archive) partsAfter(ctx context.Context, task events.TaskID, p part, last *lastPart) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		if p.Seq > 0 && !yield(p.entry, nil) || p.Seq == last.Seq {
			return
		}
		for e, err := range ar.conn.walk(ctx, archiveStream, archiveSubject(task), p.Seq+1, last.Seq) {
			if !yield(e, err) || err != nil || e.Seq == last.Seq {
				return
			}
		}
		err := ar.removedFault(ctx, task)
		if err == nil {
			err = fault.New(fault.Unavailable, "the archived history of %s has changed while it was read", task).WithHint("try again")
		}
		yield(entry{}, err)
	}
}

// part is one message of an archived history.
type part struct {
	entry

	before uint64 // the number of commits in the messages before it
	count  uint64 // the number of its commits
}

// newPart returns the part in a message; false if it cannot be decoded.
func newPart(e *entry) (p part, ok bool) {
	if e == nil {
		return p, false
	}
	p.entry = *e
	for c, err := range unframe(e.Data) {
		if err != nil {
			return p, false
		}
		if p.count++; p.count == 1 {
			first, err := events.Decode(c.Data)
			if err != nil {
				return p, false
			}
			p.before = first.Rev - 1
		}
	}
	return p, p.count > 0
}

// partWith returns the message of an archived history that contains revision from. It returns no message, which means the
// first one, if it does not find it: a reader of the whole history then finds out why. The messages before the last one are
// of similar sizes and usually adjacent, so the first guess is usually right.
func (ar *archive) partWith(ctx context.Context, task events.TaskID, last *lastPart, from uint64) (part, error) {
	if last.parts == 1 {
		return part{entry: last.entry}, nil
	}
	p, ok := newPart(&last.entry)
	if ok && from > p.before {
		return p, nil
	}
	low, end := uint64(1), last.Seq
	guess := end - min(last.parts-1-(from-1)*(last.parts-1)/max(p.before, from), end-1)
	for step := uint64(1); ok && low < end; step *= 2 {
		e, err := ar.conn.next(ctx, archiveStream, archiveSubject(task), guess)
		if err != nil {
			return part{}, err
		}
		switch p, ok = newPart(e); {
		case !ok:
		case from <= p.before:
			end = guess
		case from > p.before+p.count:
			low = p.Seq + 1
		default:
			return p, nil
		}
		guess = nearby(guess, low, end, step)
	}
	return part{}, nil
}

// nearby returns the next guess of partWith after one that was low-1 or end: at first the message beside it, then one farther
// away, at last the middle of what remains.
func nearby(guess, low, end, step uint64) uint64 {
	switch {
	case end-low <= 2*step:
		return low + (end-low)/2
	case guess < low:
		return low + step - 1
	default:
		return end - step
	}
}
