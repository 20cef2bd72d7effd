package realtime

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// doublings is how often the wait before another attempt doubles: from 500 ms to 32 s.
const doublings = 6

// Watch implements firebase.Backend. What it began with has no version: the protocol tells none. A stream
// that breaks is opened again; what changed meanwhile comes as the events of one write. The events end with
// PERMISSION_DENIED when the rules or the credential no longer let the path be read, and with QUOTA_EXCEEDED
// when there is more than Config.MaxAnswer at the path.
func (c *Client) Watch(ctx context.Context, path string, events firebase.EventType) (firebase.Watching, error) {
	at, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Watching{}, err
	}
	switch events {
	case firebase.Value, firebase.ChildAdded, firebase.ChildChanged, firebase.ChildRemoved:
	default:
		return firebase.Watching{}, refusal.New(refusal.ValidationError, "the Realtime Database has no events %q", events).WithField("eventType")
	}
	if err := ctx.Err(); err != nil {
		return firebase.Watching{}, err
	}
	running, stop := context.WithCancel(ctx)
	s, err := c.connect(running, at)
	if err != nil {
		stop()
		return firebase.Watching{}, c.notBegun(ctx, err)
	}
	w := &watcher{client: c, at: at, wants: tree.Kind(events), queue: backlog.New(c.cfg.Backlog, 0), root: s.root}
	initial := firebase.Snapshot{Exists: w.root != nil, Data: w.root.Value(), At: c.cfg.Now()}
	go w.run(running, s)
	return firebase.Watching{Initial: initial, Events: w.queue.Events(ctx, stop)}, nil
}

// notBegun tells why a watch does not begin.
func (c *Client) notBegun(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRevoked):
		return revoked(err)
	case errors.Is(err, context.Canceled):
		return refusal.New(refusal.ConnectionError, "there was no answer within %s", c.cfg.Call)
	default:
		return err
	}
}

func revoked(err error) error {
	return refusal.New(refusal.PermissionDenied, "the database ended the watch: %w", err).
		WithHint("the credential in firebase_realtime_token has expired or was withdrawn")
}

// watcher is a running watch.
type watcher struct {
	client *Client
	at     tree.Path
	wants  tree.Kind
	queue  *backlog.Queue
	root   *tree.Node // what the reader knows or will
}

// run follows one stream after the other until the context or the queue ends.
func (w *watcher) run(ctx context.Context, s *stream) {
	for failures := 0; ; {
		begun := time.Now()
		err := w.follow(s)
		s.close()
		if time.Since(begun) > w.client.cfg.Retry<<doublings {
			failures = 0
		}
		if ctx.Err() != nil || !w.passing(err) {
			w.queue.End(w.why(ctx, err))
			return
		}
		w.client.cfg.Log.WarnContext(ctx, "firebase_stream_broken", slog.Any("error", err))
		if s, err = w.reconnect(ctx, &failures); err != nil {
			w.queue.End(w.why(ctx, err))
			return
		}
		w.became(s.root)
	}
}

// follow passes on what a stream tells, until it breaks or nobody wants to hear.
func (w *watcher) follow(s *stream) error {
	for {
		told, err := s.next()
		if err != nil {
			return err
		}
		if told && !w.became(s.root) {
			return nil
		}
	}
}

// became queues the events that follow from another content. It reports false when the queue has ended.
func (w *watcher) became(root *tree.Node) bool {
	changes := tree.Diff(w.root, root)
	w.root = root
	at := w.client.cfg.Now()
	for _, change := range changes {
		if change.Kind == w.wants && !w.queue.Add(event(change, at), change.Now.Size()+change.Before.Size()) {
			return false
		}
	}
	return true
}

func event(c tree.Change, at time.Time) func() firebase.Event {
	return func() firebase.Event {
		return firebase.Event{Type: firebase.EventType(c.Kind), Key: c.Key, Data: c.Now.Value(), Previous: c.Before.Value(), At: at}
	}
}

// reconnect opens a stream as soon as that is possible. Errors: those that another attempt does not mend.
func (w *watcher) reconnect(ctx context.Context, failures *int) (*stream, error) {
	for {
		if err := pause(ctx, w.client.wait(*failures)); err != nil {
			return nil, err
		}
		*failures++
		s, err := w.client.connect(ctx, w.at)
		if err == nil || ctx.Err() != nil || !w.passing(err) {
			return s, err
		}
	}
}

// passing reports whether another stream may go on where one failed. It has the credential renewed that was
// revoked.
func (w *watcher) passing(err error) bool {
	switch {
	case err == nil, errors.Is(err, errTooLarge):
		return false
	case errors.Is(err, errRevoked):
		return w.client.credential.renew()
	}
	reason := fault.From(err).Reason
	return reason == refusal.ConnectionError || reason == refusal.QuotaExceeded || errors.Is(err, context.Canceled)
}

// why is what the reader is told at the end.
func (w *watcher) why(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the end of the context is no error of the events
	case errors.Is(err, errRevoked):
		return revoked(err)
	default:
		return err
	}
}

// wait is how long to wait after a number of failures: half of it is chance, so that the watchers of a server
// that was away do not return in step.
func (c *Client) wait(failures int) time.Duration {
	half := c.cfg.Retry << min(failures, doublings) / 2
	return half + rand.N(half+1) //nolint:gosec // the spread of pauses is no secret
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
