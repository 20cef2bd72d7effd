package bench

import (
	"context"
	"fmt"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
)

// replaysAlone measures the replay of a history in a log without other tasks.
func replaysAlone(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	var rows []Row
	for _, size := range []struct {
		id     string
		events int
	}{{"replay-1k-alone", 1_000}, {"replay-100k-alone", l.scaled(100_000)}} {
		if !l.wants(size.id) {
			continue
		}
		row, err := l.replayAlone(ctx, size.id, durability, size.events)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (l *benchRun) replayAlone(ctx context.Context, id, durability string, n int) (Row, error) {
	dir, remove, err := l.fresh("replay")
	if err != nil {
		return Row{}, err
	}
	defer remove()
	started, err := node.Start(ctx, nodeConfig(dir, durability))
	if err != nil {
		return Row{}, err
	}
	defer func() { _ = started.Stop(context.WithoutCancel(ctx)) }()
	task, err := l.runLong(ctx, started.API(), n)
	if err != nil {
		return Row{}, err
	}
	return l.replay(ctx, started.API(), id, task, "alone")
}

// replaysInLargeStore measures the replay of histories whose commits are spread over the large store.
func replaysInLargeStore(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	s, err := l.largeStoreOf(ctx)
	if err != nil {
		return nil, err
	}
	started, err := node.Start(ctx, nodeConfig(s.dir, durability))
	if err != nil {
		return nil, err
	}
	defer func() { _ = started.Stop(context.WithoutCancel(ctx)) }()
	var rows []Row
	for i, id := range []string{"replay-1k-among", "replay-100k-among"} {
		row, err := l.replay(ctx, started.API(), id, s.histories[i].id, fmt.Sprintf("among %d messages of others", 2*s.finished))
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// replay measures how long a node takes to replay a history.
func (l *benchRun) replay(ctx context.Context, remote api.API, id string, task events.TaskID, where string) (Row, error) {
	var reply api.ReplayReply
	runs, err := repeat(l.Config, func() (float64, error) {
		var err error
		reply, err = replayed(ctx, remote, task)
		return millis(reply.Duration), err
	})
	return figure(id, fmt.Sprintf("replay of %d events in %d commits, %s", reply.Events, reply.Commits, where), "ms", runs), err
}
