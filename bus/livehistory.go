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
			if !yield(*e, nil) {
				return
			}
		}
	}
}

const (
	// maxLinked is the number of commits up to which a history is read along its links, and fewLinked up to which it always is.
	maxLinked, fewLinked = 200, 8
	// perLink is how many messages the server looks through in the time that a link costs more than a commit of a walk.
	perLink = 180
)

// linked returns the live commits of a task: the first, the newest, and from there back each from where the one after it says. It returns
// false if a walk costs less, and if something about the log is unexpected: a walk then finds out what.
func (ar *archive) linked(ctx context.Context, task events.TaskID) ([]*entry, bool) {
	if ar.live == nil {
		return nil, false
	}
	last, err := ar.conn.newest(ctx, ar.live, liveSubject(task))
	newest, err := placeOf(last, err)
	if err != nil || newest.rev == 0 || newest.rev > maxLinked {
		return nil, false
	}
	commits := make([]*entry, newest.rev)
	commits[newest.rev-1] = last
	if commits[0] == nil {
		commits[0] = ar.commitAt(ctx, task, beginning)
	}
	if commits[0] == nil || newest.rev > fewLinked && newest.seq-commits[0].Seq < perLink*(newest.rev-fewLinked) {
		return nil, false
	}
	size := 0
	for i := len(commits) - 2; i > 0; i-- {
		later := commits[i+1]
		commits[i] = ar.commitAt(ctx, task, place{rev: uint64(i) + 1, seq: commitBefore(later.header)})
		if size += len(later.Data); size > partBytes || commits[i] == nil {
			return nil, false
		}
	}
	return commits, true
}

// commitAt returns a revision of a task that should be the first live commit at or after a position; nil if it is not.
func (ar *archive) commitAt(ctx context.Context, task events.TaskID, at place) *entry {
	if at.seq == 0 {
		return nil
	}
	e, err := ar.conn.next(ctx, liveStream, liveSubject(task), at.seq)
	if found, err := placeOf(e, err); err != nil || found.rev != at.rev {
		return nil
	}
	return e
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
