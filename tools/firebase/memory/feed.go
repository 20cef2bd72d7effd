package memory

import (
	"context"
	"iter"
	"sync"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// feed is the bounded queue of one watcher. Writers never wait for its reader.
type feed struct {
	wants   firebase.EventType
	backlog int
	most    int           // bytes
	wake    chan struct{} // has a token when something changed

	mu    sync.Mutex // guards what follows
	queue []pending
	held  int
	lost  bool // the reader fell too far behind; nothing is added any more
}

// audience holds the feeds of the watchers of each path; none of the sets is empty.
type audience map[string]map[*feed]bool

func (a audience) add(path string, f *feed) {
	if a[path] == nil {
		a[path] = map[*feed]bool{}
	}
	a[path][f] = true
}

func (a audience) remove(path string, f *feed) {
	delete(a[path], f)
	if len(a[path]) == 0 {
		delete(a, path)
	}
}

// pending is an event that is made when it is read.
type pending struct {
	event func() firebase.Event
	size  int
}

func newFeed(wants firebase.EventType, cfg Config) *feed {
	return &feed{wants: wants, backlog: cfg.Backlog, most: cfg.Held, wake: make(chan struct{}, 1)}
}

// add queues an event. It reports false from when the reader is too far behind.
func (f *feed) add(p pending) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) >= f.backlog || len(f.queue) > 0 && f.held+p.size > f.most {
		f.lost = true
	}
	if !f.lost {
		f.queue = append(f.queue, p)
		f.held += p.size
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return !f.lost
}

// next takes the oldest event; ended says that none will follow.
func (f *feed) next() (p pending, ok, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return pending{}, false, f.lost
	}
	p, f.queue[0] = f.queue[0], pending{}
	f.queue = f.queue[1:]
	f.held -= p.size
	return p, true, false
}

// events yields until the context ends or the reader has lost events; stop is called then.
func (f *feed) events(ctx context.Context, stop func()) iter.Seq2[firebase.Event, error] {
	return func(yield func(firebase.Event, error) bool) {
		defer stop()
		for ctx.Err() == nil {
			p, ok, ended := f.next()
			switch {
			case ok && !yield(p.event(), nil):
				return
			case ok:
			case ended:
				yield(firebase.Event{}, refusal.New(refusal.QuotaExceeded,
					"the reader fell too far behind: more than %d events or %d bytes", f.backlog, f.most).
					WithHint("subscribe again, and read faster"))
				return
			default:
				select {
				case <-ctx.Done():
				case <-f.wake:
				}
			}
		}
	}
}
