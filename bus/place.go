package bus

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/orch-dev/orch/events"
)

// place is the position of a revision of a task in the live log.
type place struct{ rev, seq uint64 }

// beginning is where a walk over the live commits of a task begins if it knows no place.
var beginning = place{rev: 1, seq: 1}

// maxSkip is how many commits a reader may skip before the first one that it returns. To skip that many costs about as
// much as one more request.
const maxSkip = 32

// reaches reports whether a walk from p comes to a revision soon.
func (p place) reaches(rev uint64) bool { return p.rev <= rev && rev-p.rev <= maxSkip }

// placeBefore returns a place from which a walk over the live commits of a task comes to revision from soon. It returns
// beginning if there is none, and whenever something about the log is unexpected: a walk over the whole history then finds
// out what.
func (ar *archive) placeBefore(ctx context.Context, task events.TaskID, from uint64) (place, error) {
	if from == 1 { // a bookmark there would only keep the reader from the links
		return beginning, nil
	}
	if p, ok := ar.bookmarks.find(task, from); ok {
		return p, nil
	}
	if beginning.reaches(from) || ar.live == nil {
		return beginning, nil
	}
	first, err := ar.placeAfter(ctx, task, 1)
	if err != nil || first.rev != 1 {
		return beginning, unlessUnexpected(err)
	}
	newest, err := ar.newestPlace(ctx, task)
	if err != nil {
		return beginning, unlessUnexpected(err)
	}
	p, err := search(first, newest, from, func(seq uint64) (place, error) { return ar.placeAfter(ctx, task, seq) })
	if err != nil {
		return beginning, unlessUnexpected(err)
	}
	return p, nil
}

// errUnexpected is the error of a search in a log that is not as it should be.
var errUnexpected = errors.New("a commit is not where the search expects it")

func unlessUnexpected(err error) error {
	if errors.Is(err, errUnexpected) {
		return nil
	}
	return err
}

// placeAfter returns the place of a task's first live commit at or after a position.
func (ar *archive) placeAfter(ctx context.Context, task events.TaskID, seq uint64) (place, error) {
	return placeOf(ar.conn.next(ctx, liveStream, liveSubject(task), seq))
}

// newestPlace returns the place of a task's newest live commit.
func (ar *archive) newestPlace(ctx context.Context, task events.TaskID) (place, error) {
	e, err := ar.conn.newest(ctx, ar.live, liveSubject(task))
	if err != nil {
		err = readFault(err)
	}
	return placeOf(e, err)
}

func placeOf(e *entry, err error) (place, error) {
	if err != nil {
		return place{}, err
	}
	if e == nil {
		return place{}, errUnexpected
	}
	h, err := decodeHead(taskOf(e.subject), e.header.Get(headHeader), e.Seq)
	if err != nil {
		return place{}, errUnexpected
	}
	return place{rev: h.Rev, seq: e.Seq}, nil
}

// search returns a place between low and high from which a walk comes to revision from soon, or high if it is before from.
// after returns the first place at or after a position. The commits of a task are usually spread evenly, so search guesses
// by proportion; every other guess halves the rest instead, which bounds their number.
func search(low, high place, from uint64, after func(seq uint64) (place, error)) (place, error) {
	if high.rev <= from {
		return high, nil
	}
	for end, halve := high.seq, false; !low.reaches(from); halve = !halve {
		if low.seq+1 >= end {
			return place{}, errUnexpected // a revision is missing
		}
		guess := low.seq + (end-low.seq)/2
		if !halve {
			guess = min(max(proportional(low, high, from-maxSkip/2), low.seq+1), end-1)
		}
		p, err := after(guess)
		if err != nil {
			return place{}, err
		}
		switch {
		case p.rev <= low.rev || p.rev > high.rev:
			return place{}, errUnexpected
		case p.rev <= from:
			low = p
		default:
			high, end = p, guess
		}
	}
	return low, nil
}

// proportional returns where a revision is if the commits between low and high are spread evenly.
func proportional(low, high place, rev uint64) uint64 {
	share := float64(rev-low.rev) / float64(high.rev-low.rev)
	return low.seq + uint64(share*float64(high.seq-low.seq))
}

const (
	// bookmarksPerTask bounds the readers of one task that are remembered.
	bookmarksPerTask = 8
	// bookmarkedTasks is the number of tasks after which the older bookmarks are forgotten.
	bookmarkedTasks = 1000
)

// bookmarks remembers where readers of histories stopped, so that the next page costs no search. A bookmark may be out of
// date: a reader must check that the commit is still there.
type bookmarks struct {
	mu sync.Mutex
	// newer and older map tasks to the places where their readers stopped, the oldest first.
	newer, older map[events.TaskID][]place
}

// find returns a place from which a walk comes to revision from soon; false if there is none.
func (b *bookmarks) find(task events.TaskID, from uint64) (best place, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.of(task) {
		if p.reaches(from) && p.rev > best.rev {
			best, ok = p, true
		}
	}
	return best, ok
}

// move records that a reader that began at one place has stopped at another.
func (b *bookmarks) move(task events.TaskID, from, to place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.DeleteFunc(b.of(task), func(p place) bool { return p == from || p == to })
	if len(list) == bookmarksPerTask {
		list = slices.Delete(list, 0, 1)
	}
	if b.newer == nil || len(b.newer) >= bookmarkedTasks {
		b.newer, b.older = map[events.TaskID][]place{}, b.newer
	}
	b.newer[task] = append(list, to)
}

// of returns the places of a task. b.mu must be held.
func (b *bookmarks) of(task events.TaskID) []place {
	if list, ok := b.newer[task]; ok {
		return list
	}
	return b.older[task]
}
