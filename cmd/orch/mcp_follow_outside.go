package main

import (
	"context"
	"log/slog"
	"time"
)

// outsideFollower takes over what the outside servers of a node offer, and every change of that.
type outsideFollower struct {
	// next waits until there is another version than the known one, takes it over and returns it.
	next func(ctx context.Context, known string, wait time.Duration) (version string, err error)
	log  *slog.Logger
	// known is the version that was taken over last.
	known string
}

const (
	// followWait is how long a node is asked to wait for a change.
	followWait = time.Minute
	// followPause is how long a node is left alone that could not answer.
	followPause = time.Second
)

// follow asks once, and then follows the changes until it is stopped.
func (f outsideFollower) follow(ctx context.Context) (stop func()) {
	f.once(ctx, quick)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx)
	}()
	return func() { cancel(); <-ended }
}

// once takes over what the node has now.
func (f *outsideFollower) once(ctx context.Context, within time.Duration) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	_ = f.take(ctx, 0) // run asks again
}

// take takes over the next version.
func (f *outsideFollower) take(ctx context.Context, wait time.Duration) error {
	version, err := f.next(ctx, f.known, wait)
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "outside_servers_unknown", slog.Any("error", err))
		return err
	}
	f.known = version
	return nil
}

// run takes over every change. While the node is gone all stays as it is: it is back when the node is.
func (f *outsideFollower) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		after := time.Duration(0)
		if f.take(ctx, followWait) != nil {
			after = followPause
		}
		pause.Reset(after)
	}
}
