package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	soakRate = 500 // tasks a second
	// soakPending is the largest number of tasks that run at the same time. A system that is too slow gets no more.
	soakPending = 2_000
)

// soak measures how the memory of a server and its worker grows under a steady load. It is measured once: it is long, and
// the slope is already the mean of many points.
func soak(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	dir, remove, err := l.fresh("soak")
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := orchProcesses(ctx, l.Config, dir, durability)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	k := soaking{system: s, pending: make(chan struct{}, soakPending), failed: make(chan error, 1)}
	if err := k.run(ctx, l.Soak); err != nil {
		return nil, err
	}
	return k.rows(l.Soak), nil
}

// soaking is a system under a steady load.
type soaking struct {
	system  *system
	pending chan struct{}
	failed  chan error

	begun          int
	server, worker []point
}

// point is the memory of a process after some minutes.
type point struct{ minutes, mib float64 }

// run starts soakRate tasks a second for length, and reads the memory of the processes a hundred times meanwhile.
func (k *soaking) run(ctx context.Context, length time.Duration) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		for float64(k.begun) < passed.Seconds()*soakRate && ctx.Err() == nil {
			k.start(ctx, &group)
		}
		if int(100*passed/length) >= len(k.server) {
			if err := k.look(passed); err != nil {
				return err
			}
		}
		if err := pause.For(ctx, 2*time.Millisecond); err != nil {
			return err
		}
		select {
		case err := <-k.failed:
			return err
		default:
		}
	}
	group.Wait()
	return nil
}

// start starts a task when fewer than soakPending run.
func (k *soaking) start(ctx context.Context, group *sync.WaitGroup) {
	k.begun++
	k.pending <- struct{}{}
	group.Go(func() {
		defer func() { <-k.pending }()
		if _, err := k.system.once(ctx, workload{steps: 1}); err != nil {
			select {
			case k.failed <- fault.Wrap(fault.CodeOf(err), err, "a task of the soak failed"):
			default: // the first failure is enough
			}
		}
	})
}

func (k *soaking) look(passed time.Duration) error {
	for i, points := range []*[]point{&k.server, &k.worker} {
		m, err := memoryOf(k.system.children[i].pid())
		if err != nil {
			return err
		}
		*points = append(*points, point{passed.Minutes(), m.now})
	}
	return nil
}

func (k *soaking) rows(length time.Duration) []Row {
	row := func(id, name string, points []point) Row {
		text := fmt.Sprintf("growth of the memory of the %s in %s at %.0f tasks/s, from %.0f to %.0f MiB",
			name, length, float64(k.begun)/length.Seconds(), points[0].mib, points[len(points)-1].mib)
		return figure(id, text, "MiB/min", []float64{slope(points[len(points)/5:])})
	}
	return []Row{row("soak", "server", k.server), row("soak-worker", "worker", k.worker)}
}

// slope returns the slope of the line that fits points best.
func slope(points []point) float64 {
	var x, y, xx, xy float64
	n := float64(len(points))
	for _, p := range points {
		x, y, xx, xy = x+p.minutes, y+p.mib, xx+p.minutes*p.minutes, xy+p.minutes*p.mib
	}
	if n*xx == x*x {
		return 0
	}
	return (n*xy - x*y) / (n*xx - x*x)
}
