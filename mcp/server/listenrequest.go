package server

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// listen serves a subscriptions/listen request with task ids or subscription ids. If the filter contains anything else, alone is
// false and the SDK sends the corresponding notifications on the same stream.
func (f *versionRouter) listen(w http.ResponseWriter, r *http.Request, p envelope, alone bool) {
	wants := p.Params.Notifications
	if len(wants.TaskIDs) > maxListened || len(wants.Subscriptions) > maxListened {
		refuse(w, http.StatusBadRequest, p.ID, invalidParams("a subscription names at most 100 tasks, and 100 ids"))
		return
	}
	listening, err := f.s.subscriptions.openListenSession(r.Context(), requestIdentity(r), wants.Subscriptions)
	if err != nil {
		refuse(w, http.StatusOK, p.ID, rpcError(fault.From(err)))
		return
	}
	defer listening.close()
	stream := newEventStream(w)
	defer stream.end()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	started := make(chan struct{})
	stream.onBegin = sync.OnceFunc(func() { close(started) })
	var group sync.WaitGroup
	defer group.Wait()
	if !alone {
		group.Go(func() { f.report(ctx, stream, r, p) })
		group.Go(func() { listening.forward(ctx, stream, started, p.ID) })
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
	group.Go(func() { listening.forward(ctx, stream, started, p.ID) })
	f.report(ctx, stream, r, p)
	group.Wait()
	_ = stream.send(mustJSON(object{"jsonrpc": "2.0", "id": p.ID, "result": object{"_meta": meta, "resultType": "complete"}}))
}

// report sends the status of the tasks of a subscription until all have ended, or the client has disconnected.
func (f *versionRouter) report(ctx context.Context, stream *eventStream, r *http.Request, p envelope) {
	c := clientWith(p.Params.Meta.Capabilities)
	c.who, c.modern, c.note = requestIdentity(r), true, r.Header.Get
	var group sync.WaitGroup
	for _, text := range p.Params.Notifications.TaskIDs {
		t, err := f.s.taskOf(ctx, c.who, text)
		if err != nil {
			continue
		}
		group.Go(func() {
			f.s.calls.follow(ctx, t.ID, func(t api.TaskView) bool {
				fields, err := f.s.tasks.detailed(ctx, c, t)
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

// serveStanding serves the standing stream of a session.
func (f *versionRouter) serveStanding(w http.ResponseWriter, r *http.Request, id string) {
	stream := newEventStream(w)
	defer stream.end()
	leave := func() {}
	stream.onBegin = func() {
		leave = f.s.clients.streams.open(id, stream)
		f.s.relays.standingOpened(id, requestIdentity(r))
	}
	defer func() { leave(); f.s.relays.recheckAll(id) }()
	f.stateful.ServeHTTP(stream, r)
}
