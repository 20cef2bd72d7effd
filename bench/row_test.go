package bench_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bench"
	"github.com/orch-dev/orch/fault"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	ids := bench.IDs()
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), len(ids), "every id is there once")
	assert.Contains(t, ids, "1-step")
	assert.Contains(t, ids, "embedded-latency-p99")
	for _, id := range bench.WithGoal() {
		assert.Contains(t, ids, id, "a goal belongs to a row")
	}
}

func TestUnknownRow(t *testing.T) {
	t.Parallel()
	_, err := bench.Run(t.Context(), bench.Config{Rows: []string{"1-stop"}})
	require.True(t, fault.Has(err, fault.ValidationError))
	assert.Contains(t, fault.From(err).Hint, "10-step")
}

func TestNothingToCompareWith(t *testing.T) {
	t.Parallel()
	_, err := bench.Run(t.Context(), bench.Config{Rows: []string{"before-rss"}})
	require.True(t, fault.Has(err, fault.RequiredField))
	assert.Equal(t, "before", fault.From(err).Field)
}

func TestMarks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  bench.Row
		goal string
		mark string
	}{
		"enough":                {bench.Row{ID: "1-step", Durability: "fsync", Value: 8000}, "≥ 8000", "ok"},
		"too little":            {bench.Row{ID: "1-step", Durability: "fsync", Value: 7999}, "≥ 8000", "missed"},
		"more when relaxed":     {bench.Row{ID: "1-step", Durability: "relaxed", Value: 8000}, "≥ 12000", "missed"},
		"fast":                  {bench.Row{ID: "latency-p50", Durability: "relaxed", Value: 0.6}, "≤ 0.60", "ok"},
		"slow":                  {bench.Row{ID: "latency-p50", Durability: "relaxed", Value: 0.61}, "≤ 0.60", "missed"},
		"ratio":                 {bench.Row{ID: "embedded-1-step", Durability: "relaxed", Value: 30_000, Ratio: 0.5}, "≥ 25000, ratio ≥ 0.50", "ok"},
		"only a ratio":          {bench.Row{ID: "mcp-list-stateful", Durability: "fsync", Value: 1, Ratio: 0.49}, "ratio ≥ 0.50", "missed"},
		"ratio missed":          {bench.Row{ID: "embedded-1-step", Durability: "relaxed", Value: 30_000, Ratio: 0.49}, "≥ 25000, ratio ≥ 0.50", "missed"},
		"one for both levels":   {bench.Row{ID: "disk", Durability: "relaxed", Value: 1.3}, "≤ 1.20", "missed"},
		"nothing to be reached": {bench.Row{ID: "64", Durability: "fsync", Value: 1}, "-", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.row.Judged()
			assert.Equal(t, test.goal, got.Goal.String())
			assert.Equal(t, test.mark, got.Mark)
		})
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	row := bench.Row{
		ID: "1-step", Name: "tasks", Durability: "fsync", Unit: "tasks/s", Value: 9000, Bare: 4500, Ratio: 2,
		CPUMicros: map[string]float64{"server": 60, "worker": 20.5, "driver": 10},
	}
	var out bytes.Buffer
	r := bench.Report{Commit: "abc", Go: "go1.26", CPUs: 2, Runs: 3, Scale: 0.02, At: time.Unix(0, 0).UTC(), Rows: []bench.Row{row.Judged()}}
	require.NoError(t, bench.Print(&out, r))
	lines := strings.Split(out.String(), "\n")
	assert.Contains(t, lines[0], "commit abc")
	assert.Contains(t, lines[1], "large rows at scale 0.02")
	for _, text := range []string{"9000", "≥ 8000", "ok", "4500", "2.00", "90.5 = 60.0 + 20.5 + 10.0"} {
		assert.Contains(t, lines[4], text)
	}
}
