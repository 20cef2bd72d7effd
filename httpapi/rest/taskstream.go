package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/statemachine"
)

// ended is the data of the event `end`.
type ended struct {
	State statemachine.State `json:"state"`
}

// followTask answers GET /tasks/{id}/events: an event `commit` for each commit, with its revision as id, an event `progress` for
// each change of the progress, and an event `end` after the last commit.
func (s *Server) followTask(x *exchange, in any) error {
	r, ok := in.(*api.WatchRequest)
	if !ok {
		return fault.New(fault.Internal, "a request has the wrong type")
	}
	last := x.r.Header.Get("Last-Event-ID")
	if err := resumeAt(r, last); err != nil {
		return err
	}
	ctx, end, err := s.openStream(x)
	if err != nil {
		return err
	}
	defer end()
	reply, err := x.api.Watch(ctx, *r) // without a wait, so that errors have a status
	if err != nil {
		return err
	}
	if last != "" && reply.Ended && len(reply.Commits) == 0 {
		x.w.WriteHeader(http.StatusNoContent) // a browser does not connect again after this
		return nil
	}
	t := taskStream{out: eventWriter{sse.Start(x.w)}, api: x.api, request: *r, keepAlive: s.cfg.KeepAlive}
	t.follow(ctx, reply) // the status was sent, so that an error can only end the stream
	return nil
}

// resumeAt sets the revision after which a stream begins: that of Last-Event-ID, or else that of the query.
func resumeAt(r *api.WatchRequest, last string) error {
	if last == "" {
		return nil
	}
	after, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return fault.New(fault.InvalidFormat, "must be a revision").WithField("Last-Event-ID")
	}
	r.After = after
	return nil
}

// taskStream is an open stream of one task.
type taskStream struct {
	out       eventWriter
	api       api.API
	request   api.WatchRequest
	keepAlive time.Duration
}

// follow sends the events of a task until it ends, or ctx does, or the client does not read.
func (t *taskStream) follow(ctx context.Context, reply api.WatchReply) {
	for first := true; ; first = false {
		sent, err := t.send(reply, first)
		if err != nil || reply.Ended {
			return
		}
		if !sent && t.out.Comment() != nil {
			return
		}
		t.request.Wait = t.keepAlive
		if reply, err = t.api.Watch(ctx, t.request); err != nil || ctx.Err() != nil {
			return
		}
	}
}

// send sends a reply, and reports whether it contained something new.
func (t *taskStream) send(reply api.WatchReply, first bool) (sent bool, err error) {
	for _, c := range reply.Commits {
		if err := t.out.event(strconv.FormatUint(c.Rev, 10), "commit", c); err != nil {
			return false, err
		}
		t.request.After = c.Rev
	}
	sent = len(reply.Commits) > 0
	if reply.Version != t.request.SeenVersion && (len(reply.Progress) > 0 || !first) {
		if err := t.out.event("", "progress", orEmpty(reply.Progress)); err != nil {
			return false, err
		}
		sent = true
	}
	t.request.SeenVersion = reply.Version
	if reply.Ended {
		if err := t.out.event("", "end", ended{reply.State}); err != nil {
			return false, err
		}
		sent = true
	}
	if !sent {
		return false, nil
	}
	return true, t.out.Flush()
}

// orEmpty returns an empty map for nil, which JSON writes as null.
func orEmpty[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}
