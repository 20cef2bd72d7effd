package orchestrator_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// readCounter is a log with an index that counts the histories that are read.
type readCounter struct {
	*indexed

	reads atomic.Int64
}

func (l *readCounter) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	l.reads.Add(1)
	return l.indexed.Read(ctx, id, from)
}

func startReadCounter(t *testing.T, log *readCounter, options ...option) *node {
	t.Helper()
	log.reads.Store(0)
	return start(t, log.Log, append([]option{func(c *orchestrator.Config) { c.Log, c.Indexes = log, log }}, options...)...)
}

func newReadCounter() *readCounter {
	return &readCounter{indexed: &indexed{Log: memlog.New(memlog.Config{})}}
}

const (
	signalPlan = "orch: v1\nsteps:\n  - {id: go, wait: {signal: go}}\n"
	personPlan = "orch: v1\nsteps:\n  - {id: ask, approve: {description: go on}}\n"
)

// A restart reads no history of a task that only waits, and answers about it as before.
func TestRestartReadsNothingOfTasksThatWait(t *testing.T) {
	t.Parallel()
	log := newReadCounter()
	n := startReadCounter(t, log)
	label := func(r *api.SubmitRequest) { r.Labels = map[string]string{"kind": "a"} }
	nap, asks, waits := n.submit(napPlan, label), n.submit(personPlan), n.submit(signalPlan)
	approval := n.pending()
	list := api.ListRequest{Limit: 10}
	before, err := n.List(t.Context(), list)
	require.NoError(t, err)
	queue, err := n.Queue(t.Context(), api.QueueRequest{IncludeAssigned: true})
	require.NoError(t, err)
	n.stop()

	for range 2 { // the second start uses the index of tasks that the first one never read
		n = startReadCounter(t, log)
		assert.Zero(t, log.reads.Load(), "nobody asked for them yet")
		status, err := n.Status(t.Context(), api.StatusRequest{})
		require.NoError(t, err)
		assert.Equal(t, 3, status.Open)
		n.stop()
	}
	n = startReadCounter(t, log, func(c *orchestrator.Config) { c.Limits.MaxOpenEach = 3 })
	_, err = n.trySubmit(napPlan)
	require.True(t, fault.Has(err, fault.QuotaExceeded), "they count: %v", err)
	assert.Zero(t, log.reads.Load())
	assert.Equal(t, approval, n.pending())
	assert.EqualValues(t, 1, log.reads.Load(), "only the one with the approval is read")
	after, err := n.List(t.Context(), list)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	again, err := n.Queue(t.Context(), api.QueueRequest{IncludeAssigned: true})
	require.NoError(t, err)
	assert.Equal(t, queue.Tasks, again.Tasks)
	_, err = n.Signal(t.Context(), api.SignalRequest{ID: waits, Name: "go", Actor: "user:test"})
	require.NoError(t, err)
	n.result(waits)
	_, err = n.decide(approval.ID, "granted", "user:somebody")
	require.NoError(t, err)
	n.result(asks)
	n.checkReplay(nap)
}

// The queue shows a task that has not been read since the start.
func TestQueueOfTasksThatWait(t *testing.T) {
	t.Parallel()
	log := newReadCounter()
	n := startReadCounter(t, log)
	n.submit(napPlan)
	want, err := n.Queue(t.Context(), api.QueueRequest{IncludeAssigned: true})
	require.NoError(t, err)
	n.stop()
	n = startReadCounter(t, log)
	got, err := n.Queue(t.Context(), api.QueueRequest{IncludeAssigned: true})
	require.NoError(t, err)
	require.Len(t, got.Tasks, 1)
	assert.NotEmpty(t, got.Tasks[0].Reason)
	assert.Equal(t, want.Tasks, got.Tasks)
}

// A timer wakes a task that has not been read since the start, once, even if it was due while no node ran.
func TestTimersWakeTasksThatWereNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newReadCounter()
		n := startReadCounter(t, log)
		id := n.submit(napPlan)
		n.stop()
		n = startReadCounter(t, log)
		<-time.After(59 * time.Minute)
		synctest.Wait()
		assert.Zero(t, log.reads.Load())
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, statemachine.Done, n.view(id).State)

		id = n.submit(napPlan)
		n.stop()
		<-time.After(2 * time.Hour)
		n = startReadCounter(t, log)
		<-time.After(time.Second)
		synctest.Wait()
		assert.Equal(t, statemachine.Done, n.view(id).State)
		n.checkReplay(id)
	})
}

// The index entry of a task is ignored if the log has newer commits of the task.
func TestTasksThatChangedAfterTheIndexAreRead(t *testing.T) {
	t.Parallel()
	log := newReadCounter()
	n := startReadCounter(t, log)
	paused, stays := n.submit(napPlan), n.submit(napPlan)
	n.stop()
	log.fixed = true // as if the next node had been killed
	n = startReadCounter(t, log)
	_, err := n.Pause(t.Context(), api.PauseRequest{ID: paused, Actor: "user:test"})
	require.NoError(t, err)
	n.stop()

	n = startReadCounter(t, log)
	assert.EqualValues(t, 1, log.reads.Load())
	r, err := n.List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	for _, line := range r.Tasks {
		assert.Equal(t, line.ID == paused, line.Paused, "%s", line.ID)
	}
	assert.False(t, n.view(stays).Paused)
}
