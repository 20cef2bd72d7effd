package node

import (
	"context"
	"log/slog"
	"time"
)

// wall is the clock that the node is set by.
func (c Config) wall() func() time.Time {
	if c.Wall == nil {
		return time.Now
	}
	return c.Wall
}

const (
	// lookAtClock is how often the clock of the machine is compared with that of the node.
	lookAtClock = time.Minute
	// clockDiffers is the difference from which on it is said.
	clockDiffers = time.Minute
)

// chores are what a node does now and then.
type chores struct{ *host }

// watchClock says when somebody has set the clock of the machine: the deadlines of tasks go on as if nobody had.
func (ch *chores) watchClock(ctx context.Context) {
	tick := time.NewTicker(lookAtClock)
	defer tick.Stop()
	for said := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		by := ch.cfg.wall()().Sub(ch.clock()).Round(time.Second)
		if (by - said).Abs() < clockDiffers {
			continue
		}
		said = by
		ch.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "the clock of the machine was set; the node keeps its own time until it is started again",
			slog.Duration("ahead_of_node", by))
	}
}
