package main

import (
	"context"
	"log/slog"
	"time"
)

// outsideFollower applies the offer of the external MCP servers of a node (tools, or resources and prompts), and each change of
// the offer.
type outsideFollower struct {
	// next waits until the offer has a version other than known, applies the offer, and returns its version.
	next func(ctx context.Context, known string, wait time.Duration) (version string, err error)
	log  *slog.Logger
	// known is the version that was last applied.
	known string
}

const (
	// followWait is how long a request waits for a change.
	followWait = time.Minute
	// followPause is the pause after a failed request.
	followPause = time.Second
)

// follow applies the current offer, and then follows the changes until stop is called.
func (f outsideFollower) follow(ctx context.Context) (stop func()) {
	f.applyCurrent(ctx, offeredWithin)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx)
	}()
	return func() { cancel(); <-ended }
}

// applyCurrent applies the current offer.
func (f *outsideFollower) applyCurrent(ctx context.Context, within time.Duration) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	_ = f.apply(ctx, 0) // after a failure, run tries again
}

// apply waits for a new version of the offer, at most for wait, and applies it.
func (f *outsideFollower) apply(ctx context.Context, wait time.Duration) error {
	version, err := f.next(ctx, f.known, wait)
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "outside_servers_unknown", slog.Any("error", err))
		return err
	}
	f.known = version
	return nil
}

// run applies each change until ctx ends. While no node runs, the last offer remains in effect.
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
		if f.apply(ctx, followWait) != nil {
			after = followPause
		}
		pause.Reset(after)
	}
}
