package crash_test

import (
	"context"
	"maps"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/test/crash"
)

// watch follows a task to its end by revision, across restarts of the node. If afresh is true, it uses a new connection
// for every request.
func (l *load) watch(ctx context.Context, id events.TaskID, round int, afresh bool) {
	l.mu.Lock()
	l.watched[id] = round
	l.mu.Unlock()
	w := crash.Watch{Task: id}
	last := uint64(0)
	for !w.Ended && ctx.Err() == nil {
		reply, err := l.next(ctx, api.WatchRequest{ID: id, After: last, Wait: 2 * time.Second, Limit: 3}, afresh)
		if unknown(err) {
			_ = pause.For(ctx, retryEvery)
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
		w.Ended = reply.Ended
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = append(l.watches, w)
	delete(l.watched, id)
}

// awaitWatchers waits until every watcher was notified that its task has ended (I8).
func (l *load) awaitWatchers(limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.watching.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	for task, round := range l.stillWatched() {
		l.violate("I8", task, round, "the watcher was not told within %s that the task is over", limit)
	}
}

func (l *load) stillWatched() map[events.TaskID]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.watched)
}

// next requests the next commits.
func (l *load) next(ctx context.Context, r api.WatchRequest, afresh bool) (api.WatchReply, error) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	if !afresh {
		return l.watcher.Watch(ctx, r)
	}
	remote, err := l.dial()
	if err != nil {
		return api.WatchReply{}, err
	}
	defer remote.Close() //nolint:errcheck // the answer counts
	return remote.Watch(ctx, r)
}
