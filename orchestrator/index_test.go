package orchestrator_test

import (
	"context"
	"iter"
	"slices"
	"sync"
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
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// indexed is a log with an index. Once there is an index, nobody may read every head.
type indexed struct {
	*memlog.Log

	// lose reports whether the append of a task is answered with UNAVAILABLE although it is in the log.
	lose func(r events.Record) bool
	// hold, which may be nil, is called before lose. The answer waits until the returned channel is closed.
	hold func(r events.Record) <-chan struct{}

	mu    sync.Mutex
	index *events.Index
	scans int
	fixed bool // SaveIndex does nothing, as if the node had been killed
}

func (l *indexed) Append(r events.Record, done func(uint64, error)) {
	l.Log.Append(r, func(seq uint64, err error) {
		var wait <-chan struct{}
		if l.hold != nil {
			wait = l.hold(r)
		}
		if l.lose != nil && l.lose(r) {
			seq, err = 0, fault.New(fault.Unavailable, "nobody knows")
		}
		if wait == nil {
			done(seq, err)
			return
		}
		go func() { <-wait; done(seq, err) }()
	})
}

func (l *indexed) SaveIndex(_ context.Context, saved events.Index) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fixed {
		l.index = &saved
	}
	return nil
}

func (l *indexed) LoadIndex(context.Context) (events.Index, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.index == nil {
		return events.Index{}, fault.New(fault.NotFound, "there is no index")
	}
	return *l.index, nil
}

func (l *indexed) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scans++
	return l.Log.Heads(ctx)
}

func (l *indexed) HeadsAfter(ctx context.Context, seq uint64) iter.Seq2[events.Head, error] {
	if seq == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.scans++
	}
	return func(yield func(events.Head, error) bool) {
		for h, err := range l.Log.Heads(ctx) {
			if (err != nil || h.Seq > seq) && !yield(h, err) {
				return
			}
		}
	}
}

// startIndexed starts a node whose index of lists does not read heads.
func startIndexed(t *testing.T, log *indexed) *node {
	t.Helper()
	return start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Indexes, c.Lists = log, log, index.NewOpen() })
}

func states(t *testing.T, n *node) map[events.TaskID]statemachine.State {
	t.Helper()
	r, err := n.List(t.Context(), api.ListRequest{Limit: 1000})
	require.NoError(t, err)
	all := map[events.TaskID]statemachine.State{}
	for _, line := range r.Tasks {
		all[line.ID] = line.State
	}
	return all
}

const napPlan = "orch: v1\nsteps:\n  - {id: nap, wait: {for: 1h}}\n"

func TestRestartFromIndex(t *testing.T) {
	t.Parallel()
	log := &indexed{Log: memlog.New(memlog.Config{})}
	n := startIndexed(t, log)
	asleep, waiting := n.submit(napPlan), n.submit(onePlan)
	stopped := n.submit(napPlan)
	_, err := n.Cancel(t.Context(), api.CancelRequest{ID: stopped})
	require.NoError(t, err)
	before := states(t, n)
	n.stop()
	require.NotNil(t, log.index)
	require.Equal(t, 1, log.scans)

	n = startIndexed(t, log)
	assert.Equal(t, before, states(t, n))
	assert.Equal(t, 1, log.scans, "the index replaces the scan of all heads")
	n.serve(echoArgs)
	n.result(waiting)
	assert.False(t, n.get(asleep).State.Terminal())
	n.checkReplay(asleep)
}

func TestRestartFromOldIndex(t *testing.T) {
	t.Parallel()
	log := &indexed{Log: memlog.New(memlog.Config{})}
	n := startIndexed(t, log)
	ends, stays := n.submit(napPlan), n.submit(napPlan)
	n.stop()
	log.fixed = true

	n = startIndexed(t, log)
	comes := n.submit(napPlan)
	_, err := n.Cancel(t.Context(), api.CancelRequest{ID: ends})
	require.NoError(t, err)
	n.stop()

	n = startIndexed(t, log)
	got := states(t, n)
	assert.Equal(t, statemachine.Cancelled, got[ends], "it was open in the index")
	assert.False(t, got[stays].Terminal())
	assert.False(t, got[comes].Terminal(), "it is younger than the index")
	assert.Len(t, got, 3)
	s, err := n.Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, 2, s.Open)
	assert.Equal(t, 1, log.scans)
}

// A commit that the log contains, although its answer was lost, must not be skipped because of the index.
func TestIndexStaysBeforeWhatIsUnknown(t *testing.T) {
	t.Parallel()
	log := &indexed{Log: memlog.New(memlog.Config{})}
	count := 0
	log.lose = func(events.Record) bool { count++; return count == 2 }
	n := startIndexed(t, log)
	known := n.submit(napPlan)
	_, err := n.trySubmit(napPlan)
	require.True(t, fault.Has(err, fault.Unavailable))
	later := n.submit(napPlan)
	n.stop()
	var hidden events.TaskID
	for h, err := range log.Log.Heads(t.Context()) {
		require.NoError(t, err)
		if h.Task != known && h.Task != later {
			hidden = h.Task
		}
	}
	require.NotEmpty(t, hidden)
	require.NotNil(t, log.index)
	require.Equal(t, uint64(1), log.index.Seq)
	log.index.Heads = slices.DeleteFunc(log.index.Heads, func(h events.Head) bool { return h.Task == hidden }) // the node may have read it again

	n = startIndexed(t, log)
	got := states(t, n)
	assert.Contains(t, got, hidden)
	assert.Contains(t, got, known)
	assert.Contains(t, got, later)
}

// Of several commits with unknown results, the one that was sent first counts, whichever is abandoned first.
func TestIndexStaysBeforeTheFirstThatIsUnknown(t *testing.T) {
	t.Parallel()
	log := &indexed{Log: memlog.New(memlog.Config{})}
	var count atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	log.hold = func(events.Record) <-chan struct{} {
		if count.Add(1) != 2 {
			return nil
		}
		close(held)
		return release
	}
	log.lose = func(events.Record) bool { return count.Load() == 2 || count.Load() == 4 }
	n := startIndexed(t, log)
	n.submit(napPlan)
	slow := make(chan error)
	go func() { _, err := n.trySubmit(napPlan); slow <- err }()
	<-held
	n.submit(napPlan)
	_, err := n.trySubmit(napPlan)
	require.True(t, fault.Has(err, fault.Unavailable))
	close(release)
	require.True(t, fault.Has(<-slow, fault.Unavailable))
	n.stop()
	require.NotNil(t, log.index)
	assert.Equal(t, uint64(1), log.index.Seq)
}

// An index that is written while appends are in flight does not cover them.
func TestIndexUnderLoad(t *testing.T) {
	t.Parallel()
	log := &indexed{Log: memlog.New(memlog.Config{Delay: func(r *events.Record) time.Duration {
		return time.Duration(r.Task[len(r.Task)-1]%8) * time.Millisecond
	}})}
	n := startIndexed(t, log)
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() { _, _ = n.trySubmit(napPlan) }) // the node may be stopping
	}
	n.stop()
	group.Wait()
	want := map[events.TaskID]bool{}
	for h, err := range log.Log.Heads(t.Context()) {
		require.NoError(t, err)
		want[h.Task] = true
	}
	n = startIndexed(t, log)
	got := states(t, n)
	for id := range want {
		assert.Contains(t, got, id)
	}
}

// A page of tasks that are newer than all evicted ones needs no scan of the log.
func TestListReadsTheLogOnlyForOldTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &indexed{Log: memlog.New(memlog.Config{})}
		n := start(t, log.Log, func(c *orchestrator.Config) {
			c.Log, c.Indexes, c.Lists, c.Limits.KeepListed = log, log, index.NewOpen(), 3
		})
		var ids []events.TaskID
		for range 8 {
			ids = append(ids, n.submit(setPlan))
			<-time.After(time.Second)
		}
		slices.Reverse(ids)
		for _, test := range []struct{ limit, scans int }{{2, 0}, {3, 1}, {8, 1}} {
			log.scans = 0
			r, err := n.List(context.Background(), api.ListRequest{Limit: test.limit})
			require.NoError(t, err)
			var got []events.TaskID
			for _, line := range r.Tasks {
				got = append(got, line.ID)
			}
			assert.Equal(t, ids[:test.limit], got)
			assert.Equal(t, test.limit < len(ids), r.Next != "")
			assert.Equal(t, test.scans, log.scans, "limit %d", test.limit)
		}
		log.scans = 0
		r, err := n.List(context.Background(), api.ListRequest{Limit: 1, States: []statemachine.State{statemachine.Failed}})
		require.NoError(t, err)
		assert.Empty(t, r.Tasks)
		assert.Equal(t, 1, log.scans, "an older one might have been failed")
	})
}
