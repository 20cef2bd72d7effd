package main

import (
	"cmp"
	"context"
	"iter"
	"math"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// watchWait is how long one request of a watcher may be held open.
const watchWait = 10 * time.Second

// recorded yields the commits of a task that are in the log now, starting with revision from.
func recorded(ctx context.Context, owner api.API, id events.TaskID, from uint64) iter.Seq2[api.CommitView, error] {
	return recordedPage(ctx, owner, id, from, 0)
}

// recordedPage is like recorded, but ends after limit commits if limit is not 0.
func recordedPage(ctx context.Context, owner api.API, id events.TaskID, from uint64, limit int) iter.Seq2[api.CommitView, error] {
	return func(yield func(api.CommitView, error) bool) {
		const most = 500
		for left := cmp.Or(limit, math.MaxInt); from > 0 && left > 0; {
			page, err := owner.History(ctx, api.HistoryRequest{ID: id, From: from, Limit: min(left, most)})
			if err != nil {
				yield(api.CommitView{}, err)
				return
			}
			for _, c := range page.Commits {
				if !yield(c, nil) {
					return
				}
			}
			from, left = page.Next, left-len(page.Commits)
		}
	}
}

// follower reads the commits of a task, each exactly once, and survives a lost connection.
type follower struct {
	session session
	id      events.TaskID
	// after is the last revision that was read, seen is the last version of the progress that was read.
	after, seen uint64
	// hold is how long a request may be held open; 0 means watchWait.
	hold time.Duration
	// output requests the output of programs too. heard is the last piece of output that was read.
	output bool
	heard  uint64
	// redial reconnects to a node after the connection was lost for the given time. If it is nil, a lost connection is an error.
	redial func(ctx context.Context, lost time.Duration) (session, error)
	// notify is called when the connection breaks, and when it is restored.
	notify func(note string)
	// people ends the wait if only a person can continue the task; nil waits.
	people *peopleWatch
}

// patience is how long a follower tries to reach a lost node. retry is the pause between attempts. grace is how long a node may
// take to restart.
const (
	patience = time.Minute
	retry    = time.Second / 2
	grace    = 5 * time.Second
)

// release closes the session of the follower, unless it is first, which the caller closes.
func (f *follower) release(ctx context.Context, first session) {
	if f.session != first {
		_ = closeSession(ctx, f.session) // the follower has read everything
	}
}

// next waits for the next answer, which may contain no commits.
func (f *follower) next(ctx context.Context) (api.WatchReply, error) {
	request := api.WatchRequest{ID: f.id, After: f.after, SeenVersion: f.seen, Wait: f.people.patience(cmp.Or(f.hold, watchWait)), Limit: 500, Output: f.output, AfterOutput: f.heard}
	reply, err := f.session.Watch(ctx, request)
	if isLost(err) && f.redial != nil && ctx.Err() == nil {
		f.notify("the connection to the node is lost; trying again")
		reply, err = f.retryRequest(ctx, request)
	}
	if err != nil {
		return reply, err
	}
	if n := len(reply.Commits); n > 0 {
		f.after = reply.Commits[n-1].Rev
	}
	if n := len(reply.Output); n > 0 {
		f.heard = reply.Output[n-1].Seq
	}
	f.seen = reply.Version
	return reply, nil
}

// retryRequest repeats a request over new connections until one answers or patience has passed.
func (f *follower) retryRequest(ctx context.Context, request api.WatchRequest) (api.WatchReply, error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request.SeenVersion = 0 // versions are unique only while a node runs
	for lost := retry; ; lost += retry {
		if pause.For(limit, retry) != nil {
			if ctx.Err() != nil {
				return api.WatchReply{}, ctx.Err()
			}
			return api.WatchReply{}, fault.New(fault.Unavailable, "the connection to the node is lost").
				WithHint("the task is durable; re-attach with: orch watch %s", f.id)
		}
		fresh, err := f.redial(limit, lost)
		if err != nil {
			continue
		}
		_ = f.session.Close(limit) // its connection is already broken
		f.adopt(fresh)
		reply, err := fresh.Watch(ctx, request)
		if !isLost(err) {
			f.notify("")
			return reply, err
		}
	}
}

// adopt continues with a new session.
func (f *follower) adopt(s session) {
	f.session = s
	if s.Embedded() {
		f.redial = nil
	}
}
