package stats_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/stats"
)

func TestTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var table stats.Table
	for i, code := range []fault.Code{"", fault.Timeout, fault.Timeout, fault.NotFound} {
		table.Add(stats.Call{Tool: "T", Worker: "w", At: at.Add(time.Duration(i) * time.Second), Took: time.Second, Code: code})
	}
	table.Add(stats.Call{Tool: "U", At: at})
	got := *table.Tools["T"]
	assert.Equal(t, stats.Counter{
		Count: 4, Successes: 1, Errors: map[fault.Code]uint64{fault.Timeout: 2, fault.NotFound: 1}, Took: 4 * time.Second,
		LastUsed: at.Add(3 * time.Second), Failing: 3,
	}, got)
	assert.Equal(t, got, *table.Workers["w"])
	assert.Len(t, table.Workers, 1, "a call that nobody began has no worker")
	rate, ok := got.Rate()
	assert.True(t, ok)
	assert.InDelta(t, 0.25, rate, 0)
	assert.Equal(t, time.Second, got.Mean())
	_, ok = stats.Counter{}.Rate()
	assert.False(t, ok, "without a call there is no rate")

	copied := table.Clone()
	table.Add(stats.Call{Tool: "T", At: at})
	assert.Equal(t, got, *copied.Tools["T"])
	assert.Zero(t, table.Tools["T"].Failing, "a success ends the series")
}

// The names that were used least recently go when there are too many.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var table stats.Table
	for i := range stats.MaxNames + 10 {
		table.Add(stats.Call{Tool: "T", Worker: strconv.Itoa(i), At: at.Add(time.Duration(i) * time.Second)})
	}
	assert.Len(t, table.Workers, stats.MaxNames)
	assert.NotContains(t, table.Workers, "9")
	assert.Contains(t, table.Workers, "10")
	assert.Equal(t, uint64(stats.MaxNames+10), table.Tools["T"].Count)
}

// A stopped worker, and an agent that hands its call over, have not failed, and a call that nobody claimed has not
// started.
func TestWhatSaysNothingIsNotCounted(t *testing.T) {
	t.Parallel()
	task := &statemachine.Task{Steps: map[string]*statemachine.Step{"a": {State: statemachine.StepRunning, Tool: "T", Worker: "agent:ada"}}}
	for class, counts := range map[string]bool{"shutdown": false, "handoff": false, "expired": false, "tool_error": true} {
		_, ok := stats.Ended(task, time.Now(), events.Event{Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Class: class}})
		assert.Equal(t, counts, ok, class)
	}
}

// A call that was refused before its worker could start it is a failure of the tool, and not of the worker.
func TestRefusedCallsAreNotTheWorkers(t *testing.T) {
	t.Parallel()
	task := &statemachine.Task{Steps: map[string]*statemachine.Step{"a": {State: statemachine.StepRunning, Tool: "T", Worker: "agent:ada"}}}
	for class, worker := range map[string]string{"denied": "", "invalid_args": "", "tool_error": "agent:ada", "timeout": "agent:ada"} {
		c, ok := stats.Ended(task, time.Now(), events.Event{
			Kind: events.StepFailed, Data: &events.StepError{Step: "a", Class: class, Error: fault.New(fault.Forbidden, "no")},
		})
		assert.True(t, ok, class)
		assert.Equal(t, stats.Call{Tool: "T", Worker: worker, At: c.At, Code: fault.Forbidden}, c, class)
	}
}

// A position is counted once, in any order of positions.
func TestProjectionCountsAPositionOnce(t *testing.T) {
	t.Parallel()
	var p stats.Projection
	for _, seq := range []uint64{2, 1, 70, 2, 70, 1, 3} {
		p.Committed(seq, []stats.Call{{Tool: "T", Worker: "w"}}, nil)
	}
	assert.Equal(t, uint64(4), p.Tool("T").Count)
	assert.Equal(t, uint64(4), p.Worker("w").Count)
	assert.Zero(t, p.Tool("another").Count)
	assert.True(t, p.Counted(70))
	assert.False(t, p.Counted(69))
}
