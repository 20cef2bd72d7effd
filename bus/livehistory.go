package bus

import (
	"context"
	"iter"
	"math"
	"strconv"

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
		commits, ok, err := ar.linked(ctx, task)
		if err != nil {
			yield(entry{}, err)
			return
		}
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
// false if a walk costs less, and if something about the log is unexpected: a walk then finds out what. So the server's count of
// messages must be right: it has those that cannot be read, too.
func (ar *archive) linked(ctx context.Context, task events.TaskID) (commits []*entry, ok bool, err error) {
	if ar.live == nil || ar.conn.External() { // a link costs a round trip
		return nil, false, nil
	}
	page, err := ar.conn.page(ctx, liveStream, liveSubject(task), 1, 1)
	if err != nil || len(page) == 0 {
		return nil, err == nil, err
	}
	first := &page[0]
	if first.pending == "0" {
		return []*entry{first}, true, nil
	}
	more, _ := strconv.ParseUint(first.pending, 10, 64) // 0 for moreMayFollow
	if more == 0 || more >= maxLinked {
		return nil, false, nil
	}
	last, err := ar.conn.newest(ctx, ar.live, liveSubject(task))
	if err != nil {
		return nil, false, readFault(err)
	}
	return ar.between(ctx, first, last, more+1)
}

// between is linked for a history of count commits, of which two are known.
func (ar *archive) between(ctx context.Context, first, last *entry, count uint64) (commits []*entry, ok bool, err error) {
	if revisionOf(last) != count || last.Seq <= first.Seq || count > fewLinked && last.Seq-first.Seq < perLink*(count-fewLinked) {
		return nil, false, nil
	}
	commits = make([]*entry, count)
	commits[0], commits[count-1] = first, last
	size := 0
	for i := count - 2; i > 0; i-- {
		later := commits[i+1]
		before := commitBefore(later.header)
		if size += len(later.Data); size > partBytes || before == 0 {
			return nil, false, nil
		}
		e, err := ar.conn.next(ctx, liveStream, first.subject, before)
		if err != nil {
			return nil, false, err
		}
		if revisionOf(e) != i+1 {
			return nil, false, nil
		}
		commits[i] = e
	}
	return commits, true, nil
}

// revisionOf returns the revision of a live commit; 0 if it is nil or damaged.
func revisionOf(e *entry) uint64 {
	at, _ := placeOf(e, nil) // none after an error
	return at.rev
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
