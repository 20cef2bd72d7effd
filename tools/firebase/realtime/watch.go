package realtime

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// doublings is the number of times the backoff doubles, by default from 500 ms to 32 s.
const doublings = 6

// Watch implements firebase.Backend. The initial snapshot has no version, because the protocol sends none. A broken
// stream is reopened; changes in between are reported as the events of a single write. The events end with
// PERMISSION_DENIED when the rules or the credential no longer permit reads of the path, and with QUOTA_EXCEEDED when
// the data at the path exceeds Config.MaxAnswer.
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
		return firebase.Watching{}, c.startError(ctx, err)
	}
	w := &watcher{client: c, at: at, kind: tree.Kind(events), queue: backlog.New(c.cfg.Backlog, 0), root: s.root}
	initial := firebase.Snapshot{Exists: w.root != nil, Data: w.root.Value(), At: c.cfg.Now()}
	go w.run(running, s)
	return firebase.Watching{Initial: initial, Events: w.queue.Events(ctx, stop)}, nil
}

// startError converts the error of a watch that did not start.
func (c *Client) startError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRevoked):
		return revokedError(err)
	case errors.Is(err, context.Canceled):
		return refusal.New(refusal.ConnectionError, "there was no answer within %s", c.cfg.Call)
	default:
		return err
	}
}

func revokedError(err error) error {
	return refusal.New(refusal.PermissionDenied, "the database ended the watch: %w", err).
		WithHint("the credential in firebase_realtime_token has expired or was withdrawn")
}

// watcher is a running watch.
type watcher struct {
	client *Client
	at     tree.Path
	kind   tree.Kind
	queue  *backlog.Queue
	root   *tree.Node // the data after all queued events
}

// run forwards the changes of a stream. When the stream breaks, run opens another one, until ctx or the queue ends or a retry
// is useless.
func (w *watcher) run(ctx context.Context, s *stream) {
	for failures := 0; ; {
		started := time.Now()
		err := w.follow(s)
		s.close()
		if time.Since(started) > w.client.cfg.Retry<<doublings {
			failures = 0
		}
		if ctx.Err() != nil || !w.retryable(err) {
			w.queue.End(w.endError(ctx, err))
			return
		}
		w.client.cfg.Log.WarnContext(ctx, "firebase_stream_broken", slog.Any("error", err))
		if s, err = w.reconnect(ctx, &failures); err != nil {
			w.queue.End(w.endError(ctx, err))
			return
		}
		w.update(s.root)
	}
}

// follow forwards the changes of a stream. It returns the error of the stream, or nil when the queue has ended.
func (w *watcher) follow(s *stream) error {
	for {
		changed, err := s.next()
		if err != nil {
			return err
		}
		if changed && !w.update(s.root) {
			return nil
		}
	}
}

// update queues the events for the change to root. It returns false when the queue has ended.
func (w *watcher) update(root *tree.Node) bool {
	changes := tree.Diff(w.root, root)
	w.root = root
	at := w.client.cfg.Now()
	for _, change := range changes {
		if change.Kind == w.kind && !w.queue.Add(event(change, at), change.Now.Size()+change.Before.Size()) {
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

// reconnect opens a stream, with retries. It returns an error only if a retry is useless or ctx has ended.
func (w *watcher) reconnect(ctx context.Context, failures *int) (*stream, error) {
	for {
		if err := pause.For(ctx, w.client.backoff(*failures)); err != nil {
			return nil, err
		}
		*failures++
		s, err := w.client.connect(ctx, w.at)
		if err == nil || ctx.Err() != nil || !w.retryable(err) {
			return s, err
		}
	}
}

// retryable reports whether a new stream may succeed after err. It refreshes a revoked credential.
func (w *watcher) retryable(err error) bool {
	switch {
	case err == nil, errors.Is(err, errTooLarge):
		return false
	case errors.Is(err, errRevoked):
		return w.client.credential.refresh()
	}
	reason := fault.From(err).Reason
	return reason == refusal.ConnectionError || reason == refusal.QuotaExceeded || errors.Is(err, context.Canceled)
}

// endError returns the error with which the events end, nil if ctx has ended.
func (w *watcher) endError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the events do not yield the error of ctx
	case errors.Is(err, errRevoked):
		return revokedError(err)
	default:
		return err
	}
}

// backoff returns the wait after a number of failures. Half of the wait is random, so that watchers do not reconnect at
// the same time after an outage of the server.
func (c *Client) backoff(failures int) time.Duration {
	return pause.Backoff(c.cfg.Retry, c.cfg.Retry<<doublings, failures)
}
