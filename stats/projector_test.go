package stats_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/stats"
)

const (
	// slowCommits is how many commits a slowLog has, and readOne how long it takes to read one.
	slowCommits = 100
	readOne     = 10 * time.Millisecond
)

// slowLog is a log that takes its time. It has no histories, only commits.
type slowLog struct{}

func (slowLog) Read(context.Context, events.TaskID, uint64) iter.Seq2[events.Stored, error] {
	return func(func(events.Stored, error) bool) {}
}

func (slowLog) Scan(_ context.Context, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		for seq := from + 1; seq <= slowCommits+1; seq++ { // the first one is missing
			<-time.After(readOne)
			if !yield(events.Stored{Seq: seq}, nil) {
				return
			}
		}
	}
}

func (slowLog) ArchivedAfter(context.Context, uint64) iter.Seq2[events.Head, error] {
	return func(func(events.Head, error) bool) {}
}

func (slowLog) Positions(context.Context) (past, live uint64, err error) {
	return 0, slowCommits + 1, nil
}

// noSnapshots stores nothing.
type noSnapshots struct{}

func (noSnapshots) SaveStats(context.Context, []byte) error { return nil }

func (noSnapshots) LoadStats(context.Context) ([]byte, error) {
	return nil, fault.New(fault.NotFound, "there is none")
}

// After a start the count takes a small part of a processor, unless there are budgets: agents wait for it then.
func TestBudgetsAreCountedAtFullSpeed(t *testing.T) {
	t.Parallel()
	count := func(budgets ...costs.Budget) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			p, err := stats.NewProjector(t.Context(), stats.ProjectorConfig{Log: slowLog{}, Snapshots: noSnapshots{}})
			require.NoError(t, err)
			p.WatchBudgets(budgets, time.Now())
			for seq := uint64(2); seq <= slowCommits+1; seq++ { // they are read, and not decoded
				p.Committed(seq, nil, nil)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended, began := make(chan struct{}), time.Now()
			go func() { defer close(ended); p.Run(ctx) }()
			<-p.Ready()
			took = time.Since(began)
			stop()
			<-ended
		})
		return took
	}
	assert.Greater(t, count(), 10*slowCommits*readOne)
	assert.Equal(t, slowCommits*readOne, count(costs.Budget{Tokens: 1, Per: costs.PerDay}))
}
