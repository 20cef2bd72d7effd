package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/internal/pause"
)

// settleTime is the wait before the memory of a server's sessions is measured.
const settleTime = 2 * time.Second

// idleTime is the wait before the memory of an idle server is measured. By then, the server has returned memory to the
// system, and its periodic jobs have loaded their pages again.
const idleTime = 30 * time.Second

// footprint measures the memory of a server and its worker, idle and after 100,000 one-step tasks, and the disk space of a
// finished task. These figures hardly vary, so they are measured once.
func footprint(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	orch, remove, err := l.startFootprint(ctx, durability, "data", orchProcesses)
	if err != nil {
		return nil, err
	}
	defer remove()
	bare, removeBare, err := l.startFootprint(ctx, durability, "bare", bareProcesses)
	if err != nil {
		return nil, err
	}
	defer removeBare()
	tasks := max(l.scaled(100_000), 5_000)
	if err := l.measureFootprints(ctx, tasks, orch, bare); err != nil {
		return nil, err
	}
	return footprintRows(tasks, orch, bare), nil
}

// footprintOf is what a system takes.
type footprintOf struct {
	system *system
	dir    string

	before, after usage
}

// usage is the memory of the server and the worker, and the disk space in bytes.
type usage struct {
	server, worker memory
	disk           int64
}

// startFootprint starts a system with its data in a subdirectory of a new directory.
func (l *benchRun) startFootprint(ctx context.Context, durability, data string, start func(context.Context, Config, string, string) (*system, error)) (*footprintOf, func(), error) {
	dir, remove, err := l.fresh("footprint")
	if err != nil {
		return nil, nil, err
	}
	s, err := start(ctx, l.Config, dir, durability)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return &footprintOf{system: s, dir: filepath.Join(dir, data)}, func() { s.stop(); remove() }, nil
}

// measureFootprints measures the systems before and after tasks. They wait at the same time.
func (l *benchRun) measureFootprints(ctx context.Context, tasks int, systems ...*footprintOf) error {
	take := func(of func(*footprintOf) *usage) error {
		if err := pause.For(ctx, idleTime); err != nil {
			return err
		}
		for _, f := range systems {
			if err := of(f).take(f); err != nil {
				return err
			}
		}
		return nil
	}
	if err := take(func(f *footprintOf) *usage { return &f.before }); err != nil {
		return err
	}
	for _, f := range systems {
		if err := f.run(ctx, l, tasks); err != nil {
			return err
		}
	}
	return take(func(f *footprintOf) *usage { return &f.after })
}

func (u *usage) take(f *footprintOf) error {
	var err error
	if u.server, err = memoryOf(f.system.children[0].pid()); err != nil {
		return err
	}
	if u.worker, err = memoryOf(f.system.children[1].pid()); err != nil {
		return err
	}
	u.disk, err = diskOf(f.dir)
	return err
}

// run runs the tasks, 64 at a time, which is typical for a busy node.
func (f *footprintOf) run(ctx context.Context, l *benchRun, tasks int) error {
	var group sync.WaitGroup
	var begun atomic.Int64
	var failure atomic.Pointer[error]
	one := workload{steps: 1}
	for range 64 {
		group.Go(func() {
			for n := begun.Add(1); n <= int64(tasks) && failure.Load() == nil; n = begun.Add(1) {
				if _, err := f.system.once(ctx, one); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
				if n%20_000 == 0 {
					l.logf("  %d of %d tasks", n, tasks)
				}
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

func footprintRows(tasks int, orch, bare *footprintOf) []Row {
	row := func(id, name, unit string, of func(*footprintOf) float64) Row {
		r := figure(id, name, unit, []float64{of(orch)})
		r.Bare = of(bare)
		r.Ratio = r.Bare / r.Value
		return r
	}
	later := fmt.Sprintf("half a minute after %d tasks", tasks)
	return []Row{
		row("rss-idle", "memory of the server, idle", "MiB", func(f *footprintOf) float64 { return f.before.server.now }),
		row("rss-after", fmt.Sprintf("memory of the server %s (peak %.0f)", later, orch.after.server.peak), "MiB",
			func(f *footprintOf) float64 { return f.after.server.now }),
		row("rss-worker", fmt.Sprintf("memory of the worker %s (before %.0f)", later, orch.before.worker.now), "MiB",
			func(f *footprintOf) float64 { return f.after.worker.now }),
		row("disk", "disk per finished 1-step task", "KiB",
			func(f *footprintOf) float64 { return float64(f.after.disk-f.before.disk) / 1024 / float64(tasks) }),
	}
}
