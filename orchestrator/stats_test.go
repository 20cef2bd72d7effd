package orchestrator_test

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/work"
)

// shelf stores the newest snapshot of the statistics.
type shelf struct {
	mu    sync.Mutex
	data  []byte
	saved chan struct{}
}

func newShelf() *shelf { return &shelf{saved: make(chan struct{}, 1)} }

func (s *shelf) SaveStats(_ context.Context, data []byte) error {
	s.mu.Lock()
	s.data = data
	s.mu.Unlock()
	select {
	case s.saved <- struct{}{}:
	default:
	}
	return nil
}

func (s *shelf) LoadStats(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		return nil, fault.New(fault.NotFound, "none")
	}
	return s.data, nil
}

// counting is an orchestrator with statistics. crash ends it without a final snapshot, close with one.
type counting struct {
	*node

	projector *stats.Projector
	end       func()
	ended     chan struct{}
}

// counted starts an orchestrator over a log. Its statistics are written at every beat, or never if beat is an hour.
func counted(t *testing.T, log *memlog.Log, at stats.Snapshots, beat time.Duration, hear func(uint64) bool) *counting {
	t.Helper()
	projector, err := stats.NewProjector(context.Background(), stats.ProjectorConfig{Log: log, Snapshots: at, SnapshotInterval: beat})
	require.NoError(t, err)
	committed := func(seq uint64, calls []stats.Call, paid []costs.Cost) {
		if hear == nil || hear(seq) {
			projector.Committed(seq, calls, paid)
		}
	}
	n := start(t, log, func(c *orchestrator.Config) { c.Hooks.Committed = committed })
	ctx, cancel := context.WithCancel(context.Background())
	c := &counting{node: n, projector: projector, ended: make(chan struct{})}
	go func() { defer close(c.ended); projector.Run(ctx) }()
	c.end = func() { n.stop(); cancel(); <-c.ended }
	t.Cleanup(c.end)
	<-projector.Ready()
	return c
}

// deaf discards snapshots, as if the process had been killed before it wrote them.
type deaf struct{ stats.Snapshots }

func (deaf) SaveStats(context.Context, []byte) error { return nil }

// run makes good calls that succeed and bad calls that end with TIMEOUT, and returns the tasks.
func (c *counting) run(good, bad int) []events.TaskID {
	c.t.Helper()
	var all []events.TaskID
	for i := range good + bad {
		id := c.submit("{orch: v1, name: t" + strconv.Itoa(i) + ", steps: [{id: a, tool: IDEM, retry: {max_attempts: 1}}]}")
		batch, err := c.Poll(c.ctx(), work.Poll{Worker: "w1", Free: 1, Wait: time.Minute})
		require.NoError(c.t, err)
		require.Len(c.t, batch.Calls, 1)
		outcome := work.Outcome{Ref: batch.Calls[0].Ref, Worker: "w1", Duration: time.Second, StartedAt: time.Now()}
		if i < good {
			outcome.Output = []byte(`{"text":"x","n":1}`)
		} else {
			outcome.Error, outcome.Class = fault.New(fault.Timeout, "too long"), "timeout"
		}
		require.NoError(c.t, c.Report(c.ctx(), outcome))
		all = append(all, id)
	}
	return all
}

func (c *counting) assertCounted(good, bad uint64) {
	c.t.Helper()
	got := c.projector.Tool("IDEM")
	assert.Equal(c.t, good+bad, got.Count)
	assert.Equal(c.t, good, got.Successes)
	assert.Equal(c.t, bad, got.Errors[fault.Timeout])
	assert.Equal(c.t, time.Duration(good+bad)*time.Second, got.Took)
	assert.Equal(c.t, good+bad, c.projector.Worker("w1").Count)
	table := c.projector.Table()
	assert.Equal(c.t, []string{"IDEM"}, keysOf(table.Tools))
}

func keysOf(m map[string]*stats.Counter) []string {
	var list []string
	for name := range maps.Keys(m) {
		list = append(list, name)
	}
	return list
}

// S3-007, S3-102: the statistics are those of the log: after a restart, after a kill that loses what came after the last
// snapshot, and when the tasks have gone to the archive meanwhile, every call counts once.
func TestStatisticsSurviveRestarts(t *testing.T) {
	t.Parallel()
	log, at := memlog.New(memlog.Config{}), newShelf()
	c := counted(t, log, at, time.Hour, nil)
	c.run(3, 2)
	c.assertCounted(3, 2)
	assert.Equal(t, uint64(2), c.projector.Tool("IDEM").Failing)
	c.end() // writes a snapshot

	c = counted(t, log, deaf{at}, time.Hour, nil)
	c.assertCounted(3, 2)
	tasks := c.run(2, 1)
	c.assertCounted(5, 3)
	reply, err := c.Archive(c.ctx(), api.ArchiveRequest{Wait: time.Minute})
	require.NoError(t, err)
	assert.Positive(t, reply.Archived)
	c.run(1, 0)
	c.end() // a kill: nothing of this is in a snapshot, some of it is in the archive
	assert.NotEmpty(t, tasks)

	c = counted(t, log, at, time.Hour, nil)
	c.assertCounted(6, 3)
	c.end()
	c = counted(t, log, at, time.Hour, nil)
	c.assertCounted(6, 3)
	c.end()

	c = counted(t, log, newShelf(), time.Hour, nil) // without a snapshot, the whole log is read
	c.assertCounted(6, 3)
}

// A call that was running when the snapshot was written counts for its tool.
func TestStatisticsOfCallsUnderWay(t *testing.T) {
	t.Parallel()
	log, at := memlog.New(memlog.Config{}), newShelf()
	c := counted(t, log, at, time.Hour, nil)
	c.submit("{orch: v1, name: t, steps: [{id: a, tool: IDEM}]}")
	batch, err := c.Poll(c.ctx(), work.Poll{Worker: "w1", Free: 1, Wait: time.Minute})
	require.NoError(t, err)
	c.end()
	c = counted(t, log, deaf{at}, time.Hour, nil)
	require.NoError(t, c.Report(c.ctx(), work.Outcome{
		Ref: batch.Calls[0].Ref, Worker: "w1", Duration: time.Second, StartedAt: time.Now(), Output: []byte(`{"text":"","n":1}`),
	}))
	c.assertCounted(1, 0)
	c.end()
	c = counted(t, log, at, time.Hour, nil)
	c.assertCounted(1, 0)
}

// Commits whose answers were lost are read from the log after two beats.
func TestStatisticsOfLostAnswers(t *testing.T) {
	t.Parallel()
	log, at := memlog.New(memlog.Config{}), newShelf()
	c := counted(t, log, at, 10*time.Millisecond, func(seq uint64) bool { return seq%3 != 0 })
	c.run(4, 2)
	require.Eventually(t, func() bool { return c.projector.Tool("IDEM").Count == 6 }, time.Minute, time.Millisecond)
	c.assertCounted(4, 2)
	<-at.saved
	c.end()
	c = counted(t, log, at, time.Hour, nil)
	c.assertCounted(4, 2)
}

// Every attempt counts, with its own worker, also if the next one is in the same commit.
func TestStatisticsCountAttempts(t *testing.T) {
	t.Parallel()
	log, at := memlog.New(memlog.Config{}), newShelf()
	c := counted(t, log, at, time.Hour, nil)
	c.submit("{orch: v1, name: t, steps: [{id: a, tool: IDEM, retry: {max_attempts: 2, initial: 1ms}}]}")
	for attempt, worker := range []string{"w1", "w2"} {
		batch, err := c.Poll(c.ctx(), work.Poll{Worker: worker, Free: 1, Wait: time.Minute})
		require.NoError(t, err)
		require.Len(t, batch.Calls, 1)
		o := work.Outcome{Ref: batch.Calls[0].Ref, Worker: worker, Duration: time.Second, StartedAt: time.Now()}
		if attempt == 0 {
			o.Error, o.Class = fault.New(fault.NetworkError, "no way"), "network"
		} else {
			o.Output = []byte(`{"text":"","n":1}`)
		}
		require.NoError(t, c.Report(c.ctx(), o))
	}
	got := c.projector.Tool("IDEM")
	assert.Equal(t, uint64(2), got.Count)
	assert.Equal(t, uint64(1), got.Errors[fault.NetworkError])
	assert.Zero(t, got.Failing)
	assert.Equal(t, uint64(1), c.projector.Worker("w1").Failing)
	assert.Equal(t, uint64(1), c.projector.Worker("w2").Successes)
}

// BenchmarkTaskCounted measures what the hook costs a task: compare with BenchmarkTask.
func BenchmarkTaskCounted(b *testing.B) {
	var p stats.Projection
	n := start(b, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Hooks.Committed = p.Committed })
	plan, err := json.Marshal(onePlan)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		oneTask(b, n, plan)
	}
}

// A commit whose acknowledgement was lost is counted as soon as its task is read again, so that no budget forgets it meanwhile.
func TestLostAcknowledgementsAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	log := memlog.New(memlog.Config{LoseAnswer: func(*events.Record) error {
		if lose.CompareAndSwap(true, false) {
			return fault.New(fault.Unavailable, "the answer is lost")
		}
		return nil
	}})
	c := counted(t, log, newShelf(), time.Hour, nil)
	c.submit("{orch: v1, name: t, steps: [{id: a, tool: IDEM}]}")
	batch, err := c.Poll(c.ctx(), work.Poll{Worker: "w1", Free: 1, Wait: time.Minute})
	require.NoError(t, err)
	lose.Store(true)
	err = c.Report(c.ctx(), work.Outcome{
		Ref: batch.Calls[0].Ref, Worker: "w1", Duration: time.Second, StartedAt: time.Now(), Output: []byte(`{"text":"","n":1}`),
	})
	require.ErrorContains(t, err, "the answer is lost")
	require.Eventually(t, func() bool { return c.projector.Tool("IDEM").Count == 1 }, time.Minute, time.Millisecond)
	c.assertCounted(1, 0)
}
