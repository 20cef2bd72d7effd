package bus

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
)

// young is the age from which on a new task's id is looked up in the archive.
const young = time.Minute

// past tells which ids may be in the archive. An archived history has left the live log, so a first
// commit under the same id would be taken there; most first commits are of ids made just now, and
// those need no look into the archive.
type past struct {
	opened time.Time
	mu     sync.Mutex
	recent map[events.TaskID]struct{} // archived while young
}

func newPast() *past { return &past{opened: time.Now(), recent: map[events.TaskID]struct{}{}} }

// mayHold reports whether the archive has to be asked about a task.
func (p *past) mayHold(task events.TaskID, now time.Time) bool {
	made := task.Time()
	if made.Before(p.opened) || now.Sub(made) > young || made.After(now) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.recent[task]
	return ok
}

// add notes a task that is being archived.
func (p *past) add(task events.TaskID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for old := range p.recent {
		if now.Sub(old.Time()) > young {
			delete(p.recent, old)
		}
	}
	if now.Sub(task.Time()) <= young {
		p.recent[task] = struct{}{}
	}
}

// sendIfNew sends a first commit unless the archive has a history of the task.
func (s *Store) sendIfNew(p *pending) {
	found, err := s.conn.page(context.Background(), archiveStream, archiveSubject(p.record.Task), 1, 1)
	switch {
	case err != nil:
		s.app.finish(p, 0, err)
	case len(found) > 0:
		s.app.finish(p, 0, conflict(p))
	default:
		s.app.send(p)
	}
}
