package bus

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// freshAge is the age above which the id of a new task is looked up in the archive.
const freshAge = time.Minute

// archiveFilter reports which tasks may be in the archive. An archived history is no longer in the live log, so
// the live log would accept a first commit with the same task. So a first commit needs a lookup in the archive. Most tasks are
// new, and the filter shows without a lookup that the archive does not have them.
type archiveFilter struct {
	opened time.Time
	mu     sync.Mutex
	recent map[events.TaskID]struct{} // archived at an age below freshAge
	swept  time.Time                  // when older tasks were last removed from recent
}

func newArchiveFilter() *archiveFilter {
	return &archiveFilter{opened: time.Now(), recent: map[events.TaskID]struct{}{}}
}

// mayContain reports whether the archive may have a history of the task.
func (f *archiveFilter) mayContain(task events.TaskID, now time.Time) bool {
	if !madeBetween(task, f.opened, now) || now.Sub(task.Time()) > freshAge {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.recent[task]
	return ok
}

// madeBetween reports whether the id of a task was made after the log was opened and until now.
func madeBetween(task events.TaskID, opened, now time.Time) bool {
	made := task.Time()
	return made.After(opened) && !made.After(now)
}

// add records a task that is being archived.
func (f *archiveFilter) add(task events.TaskID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) > freshAge {
		f.swept = now
		maps.DeleteFunc(f.recent, func(old events.TaskID, _ struct{}) bool { return now.Sub(old.Time()) > freshAge })
	}
	if now.Sub(task.Time()) <= freshAge {
		f.recent[task] = struct{}{}
	}
}

// archiveAttempts remembers which archivings of this process run or were interrupted.
type archiveAttempts struct {
	opened time.Time
	mu     sync.Mutex
	tasks  map[events.TaskID]bool // whether the archiving runs
}

func newArchiveAttempts() *archiveAttempts {
	return &archiveAttempts{opened: time.Now(), tasks: map[events.TaskID]bool{}}
}

// begin records that the archiving of a task begins. first reports that no other, of this or an earlier process, can have been
// interrupted, unless the clock was set back; see newHistory. It returns CONFLICT while another runs.
func (a *archiveAttempts) begin(task events.TaskID, now time.Time) (first bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	runs, known := a.tasks[task]
	if runs {
		return false, fault.New(fault.Conflict, "the task is being archived by another call").WithField("task")
	}
	a.tasks[task] = true
	return !known && madeBetween(task, a.opened, now), nil
}

// end records the end of the archiving of a task.
func (a *archiveAttempts) end(task events.TaskID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.tasks, task)
	} else {
		a.tasks[task] = false
	}
}

// newHistory is liveHistory for a history that began after the store was opened. It yields NOT_FOUND for an older one, whose archiving may
// have been interrupted before: if the clock was set back, the time of its id does not show that.
func (ar *archive) newHistory(ctx context.Context, task events.TaskID) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range ar.liveHistory(ctx, task) {
			if err == nil && e.Seq <= ar.startSeq {
				err = noLiveTask(task)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// sendIfNew sends a first commit. If the archive has, or had, a history of the task, it finishes the append with CONFLICT or
// GONE instead.
func (s *Store) sendIfNew(p *pending) {
	var found []entry
	none, err := s.hasNothing(context.Background(), p.record.Task)
	if err == nil && !none {
		found, _, err = s.parts(context.Background(), p.record.Task)
	}
	switch {
	case err != nil:
		s.appender.finish(p, 0, err)
	case len(found) > 0:
		s.appender.finish(p, 0, conflict(p))
	default:
		if err := s.removedFault(context.Background(), p.record.Task); err != nil {
			s.appender.finish(p, 0, err)
			return
		}
		s.appender.send(p)
	}
}

// hasNothing reports that the archive has no history of a task, nor a part of one. It reports false if that takes more than one request
// to find out.
func (ar *archive) hasNothing(ctx context.Context, task events.TaskID) (bool, error) {
	groups := groupSubjects(task)
	return ar.conn.none(ctx, archiveStream, append(groups[:], archiveSubject(task))...)
}
