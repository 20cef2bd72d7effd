package bench

import (
	"context"
	"fmt"
	"time"
)

const soakRate = 500 // tasks a second

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
	k := soaking{system: s}
	load := newSteady(soakRate, k.task)
	if err := load.run(ctx, l.Soak, k.watch(l.Soak)); err != nil {
		return nil, err
	}
	return k.rows(l.Soak, load.begun), nil
}

// soaking is a system under a steady load.
type soaking struct {
	system *system

	server, worker []point
}

// point is the memory of a process after some minutes.
type point struct{ minutes, mib float64 }

func (k *soaking) task(ctx context.Context) error {
	_, err := k.system.once(ctx, workload{steps: 1})
	return err
}

// watch returns a function that reads the memory of the processes a hundred times in length.
func (k *soaking) watch(length time.Duration) func(passed time.Duration) error {
	return func(passed time.Duration) error {
		if int(100*passed/length) < len(k.server) {
			return nil
		}
		return k.look(passed)
	}
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

func (k *soaking) rows(length time.Duration, begun int) []Row {
	row := func(id, name string, points []point) Row {
		text := fmt.Sprintf("growth of the memory of the %s in %s at %.0f tasks/s, from %.0f to %.0f MiB",
			name, length, float64(begun)/length.Seconds(), points[0].mib, points[len(points)-1].mib)
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
