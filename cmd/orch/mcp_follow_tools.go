package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// followTools adds the tools of the external MCP servers of a node to a catalogue, and updates them until stop is called.
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
		return offered.Version, nil // also after a failure, because the same tools would fail again
	}
	return outsideFollower{next: next, log: log}.follow(ctx)
}
