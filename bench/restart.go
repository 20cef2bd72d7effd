package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// restarts measures the time from launching a node on the large store until it accepts a new task: after the previous
// node was stopped, and after it was killed.
func restarts(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	s, err := l.largeStoreOf(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.restart(ctx, s, durability, (*child).stop); err != nil {
		return nil, err // the first start after the store was built is not measured
	}
	var rows []Row
	for _, way := range []struct {
		id, name string
		end      func(*child)
	}{
		{"restart-clean", "a clean stop", (*child).stop},
		{"restart-kill", "kill -9", (*child).kill},
	} {
		if !l.wants(way.id) {
			continue
		}
		if _, err := l.restart(ctx, s, durability, way.end); err != nil {
			return nil, err
		}
		runs, err := repeat(l.Config, func() (float64, error) { return l.restart(ctx, s, durability, way.end) })
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("restart after %s, %d finished and %d open tasks, until it takes work", way.name, s.finished, s.open)
		rows = append(rows, figure(way.id, name, "s", runs))
	}
	return rows, nil
}

// restart starts a node and returns the seconds until it has accepted a task. It then ends the node with end.
func (l *benchRun) restart(ctx context.Context, s *largeStore, durability string, end func(*child)) (float64, error) {
	one, err := chainOf(1)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	server, err := l.spawn(ctx, "server", RoleNode, s.dir, durability)
	if err != nil {
		return 0, err
	}
	defer end(server)
	remote, hangUp, err := dial(ctx, s.dir)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	if _, err := remote.Submit(ctx, api.SubmitRequest{Plan: one}); err != nil {
		return 0, err
	}
	took := time.Since(began)
	l.logf("  %.2f s", took.Seconds())
	return took.Seconds(), checkOpen(ctx, remote, s)
}

// checkOpen returns an error unless the node lists all open tasks.
func checkOpen(ctx context.Context, remote api.API, s *largeStore) error {
	status, err := remote.Status(ctx, api.StatusRequest{})
	if err == nil && status.Open < s.open {
		err = fault.New(fault.DataLoss, "%d open tasks of %d are left", status.Open, s.open)
	}
	return err
}
