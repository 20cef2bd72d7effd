package bench

import (
	"context"
	"fmt"
)

// planKinds are the kinds of long plans, by the prefix of their rows.
func planKinds() []struct {
	id, name string
	each     bool
} {
	return []struct {
		id, name string
		each     bool
	}{{"chain", "a chain of", false}, {"each", "a for_each of", true}}
}

// planSizes are the lengths of long plans, by the suffix of their rows. The longest plan is shorter in a quick run.
func (c Config) planSizes() map[string]int {
	const quickest = 2_000
	return map[string]int{"10": 10, "100": 100, "1k": 1_000, "10k": max(min(c.scaled(10_000), 10_000), quickest)}
}

// planRows measures what a step costs the server in plans of different lengths. The cost should not depend on the length.
func planRows() []measurement {
	var list []measurement
	for _, kind := range planKinds() {
		for _, size := range []string{"10", "100", "1k", "10k"} {
			id := kind.id + "-" + size
			list = append(list, measurement{[]string{id}, func(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
				n := l.planSizes()[size]
				w := workload{id: id, name: fmt.Sprintf("%s %d", kind.name, n), steps: n, each: kind.each, inFlight: 2}
				row, err := l.planRow(ctx, w, durability)
				return []Row{row}, err
			}})
		}
	}
	return list
}

// planRow measures the CPU time of the server for each step of a workload. The bare message pattern runs the steps of a task
// one after the other, also if orch runs the items of a for_each.
func (l *benchRun) planRow(ctx context.Context, w workload, durability string) (Row, error) {
	orch, bare, err := threeProcesses().alternate(ctx, l.Config, w, durability)
	if err != nil {
		return Row{}, err
	}
	perStep := func(s sample) float64 { return s.cpu["server"] / float64(w.steps) }
	r := figure(w.id, "server CPU of a step in "+w.name, "µs", each(orch, perStep))
	r.Bare = median(each(bare, perStep))
	r.Ratio = r.Bare / r.Value
	r.P50Millis = median(each(orch, func(s sample) float64 { return s.p50 }))
	return r, nil
}
