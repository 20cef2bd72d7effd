package crash_test

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/crash"
	"github.com/orch-dev/orch/orchestrator"
)

// watch follows a task to its end by revision, across all deaths of the node. afresh makes a new
// connection for every request, as a client does that comes and goes.
func (l *load) watch(ctx context.Context, id events.TaskID, round int, afresh bool) {
	w := crash.Watch{Task: id}
	last := uint64(0)
	for !w.Over && ctx.Err() == nil {
		reply, err := l.next(ctx, orchestrator.WatchRequest{ID: id, After: last, Wait: 2 * time.Second, Limit: 3}, afresh)
		if unknown(err) {
			pause(ctx, retryEvery)
			continue
		}
		if err != nil && ctx.Err() == nil {
			l.violate("I8", id, round, "a watcher was sent away: %v", err)
			break
		}
		for _, c := range reply.Commits {
			w.Seen = append(w.Seen, crash.Sighting{Seq: c.Seq, Rev: c.Rev, Hash: c.Hash})
			last = c.Rev
		}
		w.Over = reply.Over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = append(l.watches, w)
}

// next asks for the next commits.
func (l *load) next(ctx context.Context, r orchestrator.WatchRequest, afresh bool) (orchestrator.WatchReply, error) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	if !afresh {
		return l.watcher.Watch(ctx, r)
	}
	remote, err := l.dial()
	if err != nil {
		return orchestrator.WatchReply{}, err
	}
	defer remote.Close() //nolint:errcheck // the answer counts
	return remote.Watch(ctx, r)
}
