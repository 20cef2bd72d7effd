package bench

import (
	"context"
	"path/filepath"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

// layout is the distribution of a system over processes: all in one, or server, worker and driver.
type layout struct {
	prefix, name string
	orch, bare   func(ctx context.Context, c Config, dir, durability string) (*system, error)
}

func layouts() []layout {
	return []layout{
		threeProcesses(),
		{"embedded-", "one process", orchEmbedded, bareEmbedded},
	}
}

func threeProcesses() layout {
	return layout{"", "three processes", orchProcesses, bareProcesses}
}

// rates measures every workload in both layouts.
func rates() []measurement {
	var list []measurement
	for _, l := range layouts() {
		for _, w := range workloads() {
			ids := []string{l.prefix + w.id}
			if w.inFlight == 1 {
				ids = []string{l.prefix + w.id + "-p50", l.prefix + w.id + "-p99"}
			}
			list = append(list, measurement{ids, func(ctx context.Context, run *benchRun, durability string) ([]Row, error) {
				return l.measure(ctx, run.Config, w, ids, durability)
			}})
		}
	}
	return list
}

// measure measures a workload.
func (l layout) measure(ctx context.Context, c Config, w workload, ids []string, durability string) ([]Row, error) {
	orch, bare, err := l.alternate(ctx, c, w, durability)
	if err != nil {
		return nil, err
	}
	name := l.name + ": " + w.name
	if len(ids) == 1 {
		return []Row{rateRow(ids[0], name, orch, bare)}, nil
	}
	return []Row{
		latencyRow(ids[0], name+", median", orch, bare, func(s sample) float64 { return s.p50 }),
		latencyRow(ids[1], name+", 99 of 100", orch, bare, func(s sample) float64 { return s.p99 }),
	}, nil
}

// alternate takes the samples of a workload, alternately with orch and the bare message pattern, each
// time with a new data directory.
func (l layout) alternate(ctx context.Context, c Config, w workload, durability string) (orch, bare []sample, err error) {
	for range c.Runs {
		for _, side := range []struct {
			start   func(ctx context.Context, c Config, dir, durability string) (*system, error)
			samples *[]sample
		}{{l.orch, &orch}, {l.bare, &bare}} {
			s, err := c.sample(ctx, w, durability, side.start)
			if err != nil {
				return nil, nil, err
			}
			*side.samples = append(*side.samples, s)
		}
	}
	return orch, bare, nil
}

// sample starts a system with a new data directory, warms it up, drives it once and stops it.
func (c Config) sample(ctx context.Context, w workload, durability string, start func(ctx context.Context, c Config, dir, durability string) (*system, error)) (sample, error) {
	dir, remove, err := c.fresh("rate")
	if err != nil {
		return sample{}, err
	}
	defer remove()
	s, err := start(ctx, c, dir, durability)
	if err != nil {
		return sample{}, err
	}
	defer s.stop()
	warm := w
	warm.inFlight, warm.steps = min(w.inFlight, 64), min(w.steps, 10)
	if _, err := s.drive(ctx, warm, c.Duration/5); err != nil {
		return sample{}, err
	}
	return s.drive(ctx, w, c.Duration)
}

func each[T any](samples []T, of func(T) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return values
}

func rateRow(id, name string, orch, bare []sample) Row {
	rate := func(s sample) float64 { return s.rate }
	r := figure(id, name, "tasks/s", each(orch, rate))
	r.Bare = median(each(bare, rate))
	r.Ratio = r.Value / r.Bare
	r.P50Millis = median(each(orch, func(s sample) float64 { return s.p50 }))
	r.P99Millis = median(each(orch, func(s sample) float64 { return s.p99 }))
	r.CPUMicros, r.BareCPUMicros = cpuOfAll(orch), cpuOfAll(bare)
	return r
}

func latencyRow(id, name string, orch, bare []sample, of func(sample) float64) Row {
	r := figure(id, name, "ms", each(orch, of))
	r.Bare = median(each(bare, of))
	r.Ratio = r.Bare / r.Value
	r.CPUMicros, r.BareCPUMicros = cpuOfAll(orch), cpuOfAll(bare)
	return r
}

func cpuOfAll(samples []sample) map[string]float64 {
	cpu := map[string]float64{}
	for name := range samples[0].cpu {
		cpu[name] = median(each(samples, func(s sample) float64 { return s.cpu[name] }))
	}
	return cpu
}

// orchEmbedded starts a node with its server and worker in this process.
func orchEmbedded(ctx context.Context, _ Config, dir, durability string) (*system, error) {
	n, err := node.Start(ctx, nodeConfig(dir, durability))
	if err != nil {
		return nil, err
	}
	return newAPISystem(n.API(), nil, func() { _ = n.Stop(context.WithoutCancel(ctx)) }), nil
}

// orchProcesses starts a node process and a worker process. This process is the driver and connects over loopback TCP.
func orchProcesses(ctx context.Context, c Config, dir, durability string) (*system, error) {
	return c.processes(ctx, dir, durability, RoleNode)
}

// processes starts a server in a role of a node and a worker, and connects to them.
func (c Config) processes(ctx context.Context, dir, durability string, server Role) (*system, error) {
	children, err := c.spawnAll(ctx, dir, durability, server, RoleWorker)
	if err != nil {
		return nil, err
	}
	remote, hangUp, err := dial(ctx, dir)
	if err != nil {
		endAll(children)
		return nil, err
	}
	return newAPISystem(remote, children, func() { hangUp(); endAll(children) }), nil
}

// dial connects to the node whose data directory is below dir.
func dial(ctx context.Context, dir string) (api.API, func(), error) {
	remote, err := node.Dial(ctx, node.Config{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		return nil, nil, err
	}
	return remote, func() { _ = remote.Close() }, nil // it is no longer used
}

// spawnAll starts a server and a worker.
func (c Config) spawnAll(ctx context.Context, dir, durability string, server, worker Role) ([]*child, error) {
	first, err := c.spawn(ctx, "server", server, dir, durability)
	if err != nil {
		return nil, err
	}
	second, err := c.spawn(ctx, "worker", worker, dir, durability)
	if err != nil {
		endAll([]*child{first})
		return nil, err
	}
	return []*child{first, second}, nil
}

// endAll stops processes in reverse order.
func endAll(children []*child) {
	for i := range children {
		children[len(children)-1-i].stop()
	}
}
