package bus

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
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
	made := task.Time()
	if made.Before(f.opened) || now.Sub(made) > freshAge || made.After(now) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.recent[task]
	return ok
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

// sendIfNew sends a first commit. If the archive has, or had, a history of the task, it finishes the append with CONFLICT or
// GONE instead.
func (s *Store) sendIfNew(p *pending) {
	found, err := s.conn.page(context.Background(), archiveStream, archiveSubject(p.record.Task), 1, 1)
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
