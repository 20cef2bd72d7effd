package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// maxWatched bounds the tasks of one session whose status is reported; the others are found by asking.
const maxWatched = 256

// announce reports the status of a task to the session that asked for it, until it is over (S2-067). Nobody may
// rely on that: clients ask.
func (s *Server) announce(c client, r *run) {
	id := c.session.ID()
	known := s.sessions.of(id)
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
		s.follow(ctx, r.id, func(t api.TaskView) bool {
			return s.streams.notify(id, "notifications/tasks/status", taskStatusOf(t).v1())
		}, func() { _ = s.tell(ctx, c, r, 0) })
	})
}

// follow calls changed whenever the status of a task has changed, and each on everything that is new of it, until
// the task is over or changed returns false.
func (s *Server) follow(ctx context.Context, id events.TaskID, changed func(api.TaskView) bool, each func()) {
	last := "working"
	var rev, seen uint64
	for ctx.Err() == nil {
		w, err := s.cfg.API.Watch(ctx, api.WatchRequest{ID: id, After: rev, Seen: seen, Wait: time.Minute})
		if err != nil {
			return
		}
		seen = w.Version
		for _, commit := range w.Commits {
			rev = commit.Rev
		}
		each()
		t, err := s.cfg.API.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return
		}
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

// maxListened bounds the tasks that one subscription names.
const maxListened = 100

// listen serves subscriptions/listen of a client that wants to hear of tasks. What else it wants to hear of, the
// SDK sends on the same stream.
func (f *versionRouter) listen(w http.ResponseWriter, r *http.Request, p envelope, alone bool) {
	wants := p.Params.Notifications
	if len(wants.TaskIDs) > maxListened || len(wants.Subscriptions) > maxListened {
		refuse(w, http.StatusBadRequest, p.ID, invalidParams("a subscription names at most 100 tasks, and 100 ids"))
		return
	}
	listening, err := f.s.openListenSession(r.Context(), requestIdentity(r), wants.Subscriptions)
	if err != nil {
		refuse(w, http.StatusOK, p.ID, rpcError(fault.From(err)))
		return
	}
	defer listening.close()
	stream := newEventStream(w)
	defer stream.end()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	begun := make(chan struct{})
	stream.onBegin = sync.OnceFunc(func() { close(begun) })
	var group sync.WaitGroup
	defer group.Wait()
	if !alone {
		group.Go(func() { f.report(ctx, stream, r, p) })
		group.Go(func() { listening.forward(ctx, stream, begun, p.ID) })
		f.stateless.ServeHTTP(stream, r)
		stop()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	stream.WriteHeader(http.StatusOK)
	meta := object{mcp.MetaKeySubscriptionID: p.ID}
	_ = stream.send(notification("notifications/subscriptions/acknowledged",
		object{"_meta": meta, "notifications": accepted(wants.TaskIDs, listening.ids())}))
	group.Go(func() { listening.forward(ctx, stream, begun, p.ID) })
	f.report(ctx, stream, r, p)
	group.Wait()
	_ = stream.send(mustJSON(object{"jsonrpc": "2.0", "id": p.ID, "result": object{"_meta": meta, "resultType": "complete"}}))
}

// accepted is what of the wishes of a client is fulfilled.
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

// report sends the status of the tasks of a subscription until all are over, or the client is gone.
func (f *versionRouter) report(ctx context.Context, stream *eventStream, r *http.Request, p envelope) {
	c := clientThat(p.Params.Meta.Capabilities)
	c.who, c.modern, c.note = requestIdentity(r), true, r.Header.Get
	var group sync.WaitGroup
	for _, text := range p.Params.Notifications.TaskIDs {
		t, err := f.s.taskOf(ctx, c.who, text)
		if err != nil {
			continue
		}
		group.Go(func() {
			f.s.follow(ctx, t.ID, func(t api.TaskView) bool {
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

// onlyTasks reports whether a subscription names nothing but tasks and the subscriptions of tools.
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
