package memory

import (
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
)

// feed is the queue of one watcher, with the type of its events. Writers never wait for the reader of the queue.
type feed struct {
	*backlog.Queue

	events firebase.EventType
}

// feedsByPath contains the set of feeds of each path. No set is empty.
type feedsByPath map[string]map[*feed]bool

func (a feedsByPath) add(path string, f *feed) {
	if a[path] == nil {
		a[path] = map[*feed]bool{}
	}
	a[path][f] = true
}

func (a feedsByPath) remove(path string, f *feed) {
	delete(a[path], f)
	if len(a[path]) == 0 {
		delete(a, path)
	}
}

// end ends all feeds.
func (a feedsByPath) end(err error) {
	for _, feeds := range a {
		for f := range feeds {
			f.End(err)
		}
	}
	clear(a)
}

func newFeed(events firebase.EventType, cfg Config) *feed {
	return &feed{backlog.New(cfg.Backlog, cfg.Held), events}
}
