package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// followTools keeps the tools of outside servers in a catalogue as they are in a node, until it is stopped.
func followTools(ctx context.Context, servers node.Admin, catalogue *tools.Catalogue, log *slog.Logger) (stop func()) {
	next := func(ctx context.Context, known string, wait time.Duration) (string, error) {
		offered, err := servers.Offered(ctx, known, wait)
		if err != nil || offered.Version == known {
			return offered.Version, err
		}
		outside, err := node.Mirrors(offered.Tools)
		if err == nil {
			err = catalogue.Offer(outside)
		}
		if err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "outside_tools_left_out", slog.Any("error", err))
		}
		return offered.Version, nil // also of tools that cannot be taken over: the same ones cannot either
	}
	return outsideFollower{next: next, log: log}.follow(ctx)
}
