package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator"
)

// maxWatched bounds the tasks of one session whose status is reported; the others are found by asking.
const maxWatched = 256

// announce reports the status of a task to the session that asked for it, until it is over (S2-067). Nobody may
// rely on that: clients ask.
func (s *Server) announce(c client, r *run) {
	id := c.session.ID()
	known := s.asked.of(id)
	known.mu.Lock()
	full := known.watched >= maxWatched
	if !full {
		known.watched++
	}
	known.mu.Unlock()
	if full {
		return
	}
	s.background(func(ctx context.Context) {
		defer func() {
			known.mu.Lock()
			known.watched--
			known.mu.Unlock()
		}()
		s.follow(ctx, r.id, func(t orchestrator.TaskView) bool {
			return s.streams.notify(id, "notifications/tasks/status", standingOf(t).v1())
		}, func() { _ = s.tell(ctx, c, r, 0) })
	})
}

// follow calls changed whenever the status of a task has changed, and each on everything that is new of it, until
// the task is over or changed returns false.
func (s *Server) follow(ctx context.Context, id events.TaskID, changed func(orchestrator.TaskView) bool, each func()) {
	last := "working"
	var rev, seen uint64
	for ctx.Err() == nil {
		w, err := s.cfg.API.Watch(ctx, orchestrator.WatchRequest{ID: id, After: rev, Seen: seen, Wait: time.Minute})
		if err != nil {
			return
		}
		seen = w.Version
		for _, commit := range w.Commits {
			rev = commit.Rev
		}
		each()
		t, err := s.cfg.API.Get(ctx, orchestrator.GetRequest{ID: id})
		if err != nil {
			return
		}
		if status := standingOf(t).status; status != last {
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

// maxListened bounds the tasks that one subscription names.
const maxListened = 100

// listen serves subscriptions/listen of a client that wants to hear of tasks. What else it wants to hear of, the
// SDK sends on the same stream.
func (f *front) listen(w http.ResponseWriter, r *http.Request, p peek, alone bool) {
	if len(p.Params.Notifications.TaskIDs) > maxListened {
		refuse(w, http.StatusBadRequest, p.ID, invalidParams("a subscription names at most 100 tasks"))
		return
	}
	stream := newEventStream(w)
	defer stream.end()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	var group sync.WaitGroup
	defer group.Wait()
	if !alone {
		group.Go(func() { f.report(ctx, stream, r, p) })
		f.stateless.ServeHTTP(stream, r)
		stop()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	stream.begun = true
	meta := object{mcp.MetaKeySubscriptionID: p.ID}
	_ = stream.send(notification("notifications/subscriptions/acknowledged",
		object{"_meta": meta, "notifications": object{"taskIds": p.Params.Notifications.TaskIDs}}))
	f.report(ctx, stream, r, p)
	_ = stream.send(mustJSON(object{"jsonrpc": "2.0", "id": p.ID, "result": object{"_meta": meta, "resultType": "complete"}}))
}

// report sends the status of the tasks of a subscription until all are over, or the client is gone.
func (f *front) report(ctx context.Context, stream *eventStream, r *http.Request, p peek) {
	c := client{modern: true, caps: &mcp.ClientCapabilities{Extensions: map[string]any{tasksExtension: object{}}}, note: r.Header.Get}
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		c.who, _ = info.Extra[identityKey].(Identity)
	}
	var group sync.WaitGroup
	for _, text := range p.Params.Notifications.TaskIDs {
		t, err := f.s.taskOf(ctx, c.who, text)
		if err != nil {
			continue
		}
		group.Go(func() {
			f.s.follow(ctx, t.ID, func(t orchestrator.TaskView) bool {
				fields, err := f.s.detailed(ctx, c, t)
				if err != nil {
					return false
				}
				fields["_meta"] = object{mcp.MetaKeySubscriptionID: p.ID}
				return stream.send(notification("notifications/tasks", fields)) == nil
			}, func() {})
		})
	}
	group.Wait()
}

// onlyTasks reports whether a subscription names nothing but tasks.
func onlyTasks(raw []byte) bool {
	var body struct {
		Params struct {
			Notifications map[string]any `json:"notifications"`
		} `json:"params"`
	}
	decode(raw, &body)
	for name, value := range body.Params.Notifications {
		if list, ok := value.([]any); name != "taskIds" && value != false && (!ok || len(list) > 0) {
			return false
		}
	}
	return true
}
