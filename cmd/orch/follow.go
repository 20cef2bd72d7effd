package main

import (
	"context"
	"errors"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

// display shows the progress of a task. Its methods are called from one goroutine.
type display interface {
	// update shows a change.
	update(n followUpdate) error
	// tick is called at regular intervals.
	tick() error
	// close is called once, after the last update.
	close() error
}

// followUpdate contains the changes of a task since the previous update.
type followUpdate struct {
	api.WatchReply

	// task and why are set for displays that need snapshots: the state of the task, and the causes of its wait if no step runs.
	task *api.TaskView
	why  []api.Cause
	// note is a message about a broken connection. If it is set, all other fields are empty.
	note string
	err  error
}

// follow shows a task until it has ended, and returns its state. If ctx ends first, it returns the error of ctx. It calls d.tick
// at the interval every. snapshots reports whether the display needs snapshots.
func follow(ctx context.Context, f *follower, every time.Duration, d display, snapshots bool) (statemachine.State, error) {
	inner, cancel := context.WithCancel(ctx)
	feed := make(chan followUpdate)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.feed(inner, feed, snapshots)
	}()
	defer func() { cancel(); <-done }()
	state, err := consume(ctx, feed, every, d)
	return state, errors.Join(err, d.close())
}

func consume(ctx context.Context, feed <-chan followUpdate, every time.Duration, d display) (statemachine.State, error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-ticker.C:
			if err := d.tick(); err != nil {
				return "", err
			}
		case n := <-feed:
			if n.err != nil {
				return "", n.err
			}
			if err := d.update(n); err != nil {
				return "", err
			}
			if n.Ended {
				return n.State, nil
			}
		}
	}
}

// feed sends updates until the task has ended, an error occurs, or ctx ends.
func (f *follower) feed(ctx context.Context, feed chan<- followUpdate, snapshots bool) {
	send := func(n followUpdate) bool {
		select {
		case feed <- n:
			return n.err == nil && !n.Ended
		case <-ctx.Done():
			return false
		}
	}
	f.notify = func(note string) { send(followUpdate{note: note}) }
	for first := true; ; first = false { // an answer with only progress needs no snapshot
		reply, err := f.next(ctx)
		n := followUpdate{WatchReply: reply, err: err}
		if err == nil && snapshots && (len(reply.Commits) > 0 || reply.Ended || first) {
			n.err = f.snapshot(ctx, &n)
		}
		if !send(n) {
			return
		}
		if err := f.people.check(ctx, f.session, f.id, reply); err != nil {
			send(followUpdate{err: err})
			return
		}
	}
}

// snapshot adds the state of the task to an update, and the causes of its wait if no step runs.
func (f *follower) snapshot(ctx context.Context, n *followUpdate) error {
	t, err := f.session.Get(ctx, api.GetRequest{ID: f.id})
	if isLost(err) {
		return nil // the next answer reports the error
	}
	if err != nil {
		return err
	}
	n.task = &t
	if n.Ended || runs(t) {
		return nil
	}
	if why, err := f.session.Explain(ctx, api.GetRequest{ID: f.id}); err == nil {
		n.why = why.Causes
	}
	return nil
}

func runs(t api.TaskView) bool {
	for _, s := range t.Steps {
		if s.State == statemachine.StepRunning && s.Tool != "" && s.Child == "" {
			return true
		}
	}
	return false
}
