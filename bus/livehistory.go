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

// liveCommits yields the commits of a task in the live log, unchecked. In a walk, the server looks for each commit in all messages after
// the one before. Most tasks have two commits, with those of many other tasks in between; it finds the first one and the newest at once.
func (ar *archive) liveCommits(ctx context.Context, task events.TaskID) iter.Seq2[entry, error] {
	subject := liveSubject(task)
	return func(yield func(entry, error) bool) {
		newest, err := ar.conn.newest(ctx, ar.live, subject)
		if at, _ := placeOf(newest, err); at.rev != 2 {
			ar.conn.walk(ctx, liveStream, subject, 1, math.MaxUint64)(yield)
			return
		}
		first, err := ar.conn.next(ctx, liveStream, subject, 1)
		if err != nil {
			yield(entry{}, err)
			return
		}
		if first != nil && first.Seq < newest.Seq && !yield(*first, nil) {
			return
		}
		yield(*newest, nil)
	}
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
