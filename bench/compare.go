package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/orch-dev/orch/internal/pause"
)

// startsEach is how many times as many starts as other figures are measured, because they vary most.
const startsEach = 5

// variant is a way to run `orch serve`.
type variant struct{ program, http string }

// comparison compares a node with another variant of it.
type comparison struct {
	prefix, name string
	// variants returns the node and the other variant; ok is false if this run has no other one.
	variants func(c Config) (node, other variant, ok bool)
}

// comparisons compares a node with one that serves no HTTP, and with another program.
func comparisons() []measurement {
	const address = "127.0.0.1:0"
	http := comparison{"http", "a node without HTTP", func(c Config) (variant, variant, bool) {
		return variant{c.Program, address}, variant{c.Program, "off"}, true
	}}
	before := comparison{"before", "the program before", func(c Config) (variant, variant, bool) {
		return variant{c.Program, address}, variant{c.Before, address}, c.Before != ""
	}}
	var list []measurement
	for _, c := range []comparison{http, before} {
		list = append(list, measurement{[]string{c.prefix + "-rss"}, c.memory}, measurement{[]string{c.prefix + "-start"}, c.starts})
	}
	return list
}

// of returns the configuration that runs a variant.
func (c Config) of(v variant) Config {
	c.Program = v.program
	return c
}

// memory measures the anonymous memory of idle nodes, side by side.
func (cmp comparison) memory(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	node, other, ok := cmp.variants(l.Config)
	if !ok {
		return nil, nil
	}
	var of, ofOther, more []float64
	for range l.Runs {
		memories, err := l.idleMemories(ctx, durability, node, other)
		if err != nil {
			return nil, err
		}
		of, ofOther, more = append(of, memories[0]), append(ofOther, memories[1]), append(more, memories[0]-memories[1])
	}
	name := fmt.Sprintf("anonymous memory of an idle node: %.1f MiB, %s %.1f", median(of), cmp.name, median(ofOther))
	return []Row{figure(cmp.prefix+"-rss", name, "MiB more", more)}, nil
}

// idleMemories returns the anonymous memory of idle nodes. How much of a program is mapped depends on how its file lies in the cache of
// the kernel, and nodes share it.
func (c Config) idleMemories(ctx context.Context, durability string, variants ...variant) ([]float64, error) {
	servers := make([]*child, len(variants))
	for i, v := range variants {
		dir, remove, err := c.fresh("idle")
		if err != nil {
			return nil, err
		}
		defer remove()
		if servers[i], err = c.of(v).serve(ctx, dir, durability, "--http", v.http); err != nil {
			return nil, err
		}
		defer servers[i].stop()
	}
	if err := pause.For(ctx, idleTime); err != nil {
		return nil, err
	}
	memories := make([]float64, len(servers))
	for i, s := range servers {
		m, err := memoryOf(s.pid())
		if err != nil {
			return nil, err
		}
		memories[i] = m.anonymous
	}
	return memories, nil
}

// starts measures cold starts with new data directories, alternately.
func (cmp comparison) starts(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	node, other, ok := cmp.variants(l.Config)
	if !ok {
		return nil, nil
	}
	text, err := helloPlan()
	if err != nil {
		return nil, err
	}
	var of, ofOther startTimes
	for range startsEach * l.Runs {
		if err := of.add(ctx, l.Config, node, durability, text); err != nil {
			return nil, err
		}
		if err := ofOther.add(ctx, l.Config, other, durability, text); err != nil {
			return nil, err
		}
	}
	row := figure(cmp.prefix+"-start", "launch → first task done, compared with "+cmp.name, "ms", of.took)
	row.Bare = median(ofOther.took)
	row.Ratio = row.Bare / row.Value
	row.CPUMicros, row.BareCPUMicros = of.cpuMicros(), ofOther.cpuMicros()
	return []Row{row}, nil
}

// startTimes are the times of starts in milliseconds, and the CPU time of all.
type startTimes struct {
	took []float64
	cpu  time.Duration
}

// add measures a start.
func (s *startTimes) add(ctx context.Context, c Config, v variant, durability string, text []byte) error {
	dir, remove, err := c.fresh("start")
	if err != nil {
		return err
	}
	defer remove()
	took, cpu, err := c.of(v).coldStart(ctx, dir, durability, text, "--http", v.http)
	s.took = append(s.took, took)
	s.cpu += cpu
	return err
}

// cpuMicros returns the mean CPU time of a start. The single times are too coarse for a median.
func (s *startTimes) cpuMicros() map[string]float64 {
	return map[string]float64{"server": float64(s.cpu.Microseconds()) / float64(len(s.took))}
}
