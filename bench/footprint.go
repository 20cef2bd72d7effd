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

// footprint measures the memory of a server, idle and after 100,000 one-step tasks, and the disk space of a finished
// task. These figures hardly vary, so they are measured once.
func footprint(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	dir, remove, err := l.fresh("footprint")
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := orchProcesses(ctx, l.Config, dir, durability)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	f := footprints{l: l, system: s, dir: filepath.Join(dir, "data"), tasks: l.scaled(100_000)}
	if err := f.measure(ctx); err != nil {
		return nil, err
	}
	return f.rows(), nil
}

// idleTime is the wait before the memory of an idle server is measured. By then, the server has returned memory to the
// system, and its periodic jobs have loaded their pages again.
const idleTime = 30 * time.Second

type footprints struct {
	l      *benchRun
	system *system
	dir    string
	tasks  int

	idle, after memory
	empty, full int64 // bytes
}

func (f *footprints) measure(ctx context.Context) error {
	if err := pause.For(ctx, idleTime); err != nil {
		return err
	}
	server := f.system.children[0].pid()
	var err error
	if f.idle, err = memoryOf(server); err != nil {
		return err
	}
	if f.empty, err = diskOf(f.dir); err != nil {
		return err
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	if err := pause.For(ctx, idleTime); err != nil {
		return err
	}
	if f.after, err = memoryOf(server); err != nil {
		return err
	}
	f.full, err = diskOf(f.dir)
	return err
}

// run runs the tasks, 64 at a time, which is typical for a busy node.
func (f *footprints) run(ctx context.Context) error {
	var group sync.WaitGroup
	var begun atomic.Int64
	var failure atomic.Pointer[error]
	one := workload{steps: 1}
	for range 64 {
		group.Go(func() {
			for n := begun.Add(1); n <= int64(f.tasks) && failure.Load() == nil; n = begun.Add(1) {
				if _, err := f.system.once(ctx, one); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
				if n%20_000 == 0 {
					f.l.logf("  %d of %d tasks", n, f.tasks)
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

func (f *footprints) rows() []Row {
	row := func(id, name, unit string, value float64) Row { return figure(id, name, unit, []float64{value}) }
	return []Row{
		row("rss-idle", "memory of the server, idle", "MiB", f.idle.now),
		row("rss-after", fmt.Sprintf("memory of the server half a minute after %d tasks (peak %.0f)", f.tasks, f.after.peak), "MiB", f.after.now),
		row("disk", "disk per finished 1-step task", "KiB", float64(f.full-f.empty)/1024/float64(f.tasks)),
	}
}
