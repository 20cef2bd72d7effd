package server

import (
	"context"
	"math"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// maxWatched is the most tasks of one session that have their status changes reported. The client has to poll further tasks.
const maxWatched = 256

// reportStatus starts to report status changes of a task to the session that requested the task, until the task ends (S2-067).
// Clients must not rely on these reports and must poll.
func (cl *caller) reportStatus(c client, r *run) {
	id := c.session.ID()
	known := cl.clients.sessions.get(id)
	known.mu.Lock()
	full := known.watched >= maxWatched
	if !full {
		known.watched++
	}
	known.mu.Unlock()
	if full {
		return
	}
	cl.background(func(ctx context.Context) {
		defer func() {
			known.mu.Lock()
			known.watched--
			known.mu.Unlock()
		}()
		cl.follow(ctx, r.id, func(t api.TaskView) bool {
			return cl.clients.streams.notify(id, "notifications/tasks/status", taskStatusOf(t).v1())
		}, func() { _ = cl.reportNews(ctx, c, r, 0) })
	})
}

// follow calls each after new commits of a task, and changed after a change of its status. It returns when the task has ended,
// changed returns false, ctx ends, or the task cannot be read.
func (cl *caller) follow(ctx context.Context, id events.TaskID, changed func(api.TaskView) bool, each func()) {
	last, wait := "working", time.Duration(0)
	rev, seen := uint64(math.MaxUint64), uint64(0) // earlier commits are not needed
	for ctx.Err() == nil {
		w, err := cl.cfg.API.Watch(ctx, api.WatchRequest{ID: id, After: rev, SeenVersion: seen, Wait: wait})
		if err != nil {
			return
		}
		seen, wait = w.Version, time.Minute
		each()
		t, err := cl.cfg.API.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return
		}
		rev = t.Rev
		if status := taskStatusOf(t).status; status != last {
			last = status
			if !changed(t) {
				return
			}
		}
		if t.State.Terminal() {
			return
		}
	}
}

// maxListened is the most tasks, and the most subscription ids, of one subscriptions/listen request.
const maxListened = 100

// accepted returns the part of a client's filter that the server accepts.
func accepted(tasks, subscriptions []string) object {
	all := object{}
	if len(tasks) > 0 {
		all["taskIds"] = tasks
	}
	if len(subscriptions) > 0 {
		all[eventsExtension] = subscriptions
	}
	return all
}

// onlyTasks reports whether the filter of a subscriptions/listen request contains only task ids and subscription ids.
func onlyTasks(raw []byte) bool {
	var body struct {
		Params struct {
			Notifications map[string]any `json:"notifications"`
		} `json:"params"`
	}
	decode(raw, &body)
	for name, value := range body.Params.Notifications {
		if list, ok := value.([]any); name != "taskIds" && name != eventsExtension && value != false && (!ok || len(list) > 0) {
			return false
		}
	}
	return true
}
