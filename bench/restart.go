package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// restartWay is how the process before a measured start ended.
type restartWay struct {
	id, name string
	end      func(*child)
	// noIndex removes the indexes before the start. The bare message pattern has none.
	noIndex bool
}

func restartWays() []restartWay {
	return []restartWay{
		{id: "restart-clean", name: "restart after a clean stop", end: (*child).stop},
		{id: "restart-kill", name: "restart after kill -9", end: (*child).kill},
		{id: "restart-no-index", name: "restart without an index", end: (*child).stop, noIndex: true},
	}
}

// restarts measures the time from launching a node on the large store until it accepts a new task: after the previous
// node was stopped, after it was killed, and without the indexes. It is compared with a bare server that has two messages
// for each finished task.
func restarts(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	s, err := l.largeStoreOf(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.restart(ctx, s, durability, restartWays()[0]); err != nil {
		return nil, err // the first start after the store was built is not measured
	}
	if err := l.fillBare(ctx, s); err != nil {
		return nil, err
	}
	var rows []Row
	for _, way := range restartWays() {
		if !l.wants(way.id) {
			continue
		}
		row, err := l.restartRow(ctx, s, durability, way)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (l *benchRun) restartRow(ctx context.Context, s *largeStore, durability string, way restartWay) (Row, error) {
	runs, err := l.restartRuns(func() (float64, error) { return l.restart(ctx, s, durability, way) })
	if err != nil {
		return Row{}, err
	}
	r := figure(way.id, fmt.Sprintf("%s, %d finished and %d open tasks, until it takes work", way.name, s.finished, s.open), "s", runs)
	if way.noIndex {
		return r, nil
	}
	bare, err := l.restartRuns(func() (float64, error) { return l.restartBare(ctx, s, durability, way) })
	r.Bare = median(bare)
	r.Ratio = r.Bare / r.Value
	return r, err
}

// restartRuns discards the first start, which follows another kind of end.
func (l *benchRun) restartRuns(take func() (float64, error)) ([]float64, error) {
	if _, err := take(); err != nil {
		return nil, err
	}
	return repeat(l.Config, take)
}

// restart starts a node and returns the seconds until it has accepted a task. It then ends the node.
func (l *benchRun) restart(ctx context.Context, s *largeStore, durability string, way restartWay) (float64, error) {
	one, err := chainOf(1)
	if err != nil {
		return 0, err
	}
	if way.noIndex {
		if err := removeIndexes(s.dir); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	server, err := l.spawn(ctx, "server", RoleNode, s.dir, durability)
	if err != nil {
		return 0, err
	}
	defer way.end(server)
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

// removeIndexes removes the index of the open tasks and that of lists from the data directory of a stopped node.
func removeIndexes(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "data", "*.idx"))
	if err == nil && len(files) == 0 {
		err = fault.New(fault.NotFound, "there is no index in %s", dir)
	}
	for _, file := range files {
		if err == nil {
			err = os.Remove(file)
		}
	}
	if err != nil {
		return fault.Wrap(fault.ExecFailed, err, "the indexes cannot be removed")
	}
	return nil
}

// restartBare starts a server of the bare message pattern and returns the seconds until it has accepted a message.
func (l *benchRun) restartBare(ctx context.Context, s *largeStore, durability string, way restartWay) (float64, error) {
	began := time.Now()
	server, err := l.spawn(ctx, "server", RoleBareServer, s.dir, durability)
	if err != nil {
		return 0, err
	}
	defer way.end(server)
	b, err := dialBare(ctx, s.dir)
	if err != nil {
		return 0, err
	}
	defer b.nc.Close()
	if _, err := b.js.Publish(ctx, fmt.Sprintf("%sstart.%d", bareSubject, began.UnixNano()), b.data); err != nil {
		return 0, bareFault(err)
	}
	return time.Since(began).Seconds(), nil
}

// fillBare publishes the two messages of each finished task of the bare message pattern, unless they are there.
func (l *benchRun) fillBare(ctx context.Context, s *largeStore) error {
	if s.bare {
		return nil
	}
	l.logf("  %d finished tasks of the bare message pattern", s.finished)
	s.bare = true
	return withBare(ctx, s.dir, func(b *bareClient) error {
		const wave = 2000
		for done := 0; done < s.finished; done += wave {
			if err := b.publishTasks(ctx, min(wave, s.finished-done), 2); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkOpen returns an error unless the node lists all open tasks.
func checkOpen(ctx context.Context, remote api.API, s *largeStore) error {
	status, err := remote.Status(ctx, api.StatusRequest{})
	if err == nil && status.Open < s.open {
		err = fault.New(fault.DataLoss, "%d open tasks of %d are left", status.Open, s.open)
	}
	return err
}
