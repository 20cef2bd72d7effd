package node

import (
	"context"
	"log/slog"
	"time"
)

// wall returns the clock from which the node sets its own clock at the start.
func (c Config) wall() func() time.Time {
	if c.Wall == nil {
		return time.Now
	}
	return c.Wall
}

const (
	// clockCheckEvery is the interval at which the clock of the machine is compared with that of the node.
	clockCheckEvery = time.Minute
	// clockDiffers is the smallest difference that is logged.
	clockDiffers = time.Minute
)

// chores are the periodic jobs of a node.
type chores struct{ *host }

// watchClock logs a warning when the clock of the machine was set. The clock of the node, which the deadlines of tasks use, is
// not affected.
func (ch *chores) watchClock(ctx context.Context) {
	tick := time.NewTicker(clockCheckEvery)
	defer tick.Stop()
	for logged := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ahead := ch.cfg.wall()().Sub(ch.clock()).Round(time.Second)
		if (ahead - logged).Abs() < clockDiffers {
			continue
		}
		logged = ahead
		ch.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "the clock of the machine was set; the node keeps its own time until it is started again",
			slog.Duration("ahead_of_node", ahead))
	}
}
