package bus

import (
	"context"
	"iter"
	"math"

	"github.com/orch-dev/orch/events"
)

// liveHistory yields the commits of a task in the live log, from the first. Errors: DATA_LOSS if one is missing, and those of walk.
func (ar *archive) liveHistory(ctx context.Context, task events.TaskID) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		rev := uint64(0)
		for e, err := range ar.liveCommits(ctx, task) {
			if rev++; err == nil {
				err = ar.checkCommit(task, rev, &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// liveFrom yields the commits of a task in the live log from a place, unchecked. Errors: those of liveCommits and walk.
func (ar *archive) liveFrom(ctx context.Context, task events.TaskID, at place) iter.Seq2[entry, error] {
	if at == beginning {
		return ar.liveCommits(ctx, task)
	}
	return ar.conn.walk(ctx, ar.liveName(), liveSubject(task), at.seq, math.MaxUint64)
}

// liveCommits yields the commits of a task in the live log, from the first, unchecked. In a walk, the server looks for each commit in all
// messages after the one before, which may be those of thousands of other tasks.
func (ar *archive) liveCommits(ctx context.Context, task events.TaskID) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		commits, ok := ar.linked(ctx, task)
		if !ok {
			ar.conn.walk(ctx, ar.liveName(), liveSubject(task), 1, math.MaxUint64)(yield)
			return
		}
		for _, e := range commits {
			if !yield(e, nil) {
				return
			}
		}
	}
}

const (
	// maxLinked is the number of commits up to which a history is read along its links, and fewLinked up to which it always is.
	maxLinked, fewLinked = 200, 4
	// perLink is how many messages the server looks through in the time of one request.
	perLink = 256
)

// linked returns the live commits of a task. It reads them from the newest back, each from where the one after it says. It returns false
// if a walk costs less, and if something about the log is unexpected: a walk then finds out what.
func (ar *archive) linked(ctx context.Context, task events.TaskID) ([]entry, bool) {
	if ar.live == nil {
		return nil, false
	}
	e, err := ar.conn.newest(ctx, ar.live, liveSubject(task))
	newest, err := placeOf(e, err)
	if err != nil || newest.rev == 0 || newest.rev > maxLinked {
		return nil, false
	}
	commits := make([]entry, newest.rev)
	size, links := 0, uint64(0)
	for i := newest.rev - 1; i > 0; i-- {
		commits[i] = *e
		before := commitBefore(e.header)
		size, links = size+len(e.Data), links+1
		if before == 0 && i > 1 || newest.rev > fewLinked && newest.seq-before < perLink*links || size > partBytes {
			return nil, false
		}
		e, err = ar.conn.next(ctx, liveStream, liveSubject(task), before)
		if at, err := placeOf(e, err); err != nil || at.rev != i {
			return nil, false
		}
	}
	commits[0] = *e
	return commits, true
}

// checkCommit returns an error if a live commit does not have a revision, or may not be durable.
func (ar *archive) checkCommit(task events.TaskID, rev uint64, e *entry) error {
	h, err := decodeHead(task, e.header.Get(headHeader), e.Seq)
	switch {
	case err != nil:
		return err
	case h.Rev != rev:
		return missingRevision(task, rev, e.Seq)
	case e.damage != nil:
		return e.damage
	default:
		return ar.checkDurable(e.Seq)
	}
}
