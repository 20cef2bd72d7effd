package orchestrator_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// reasons lists the reasons of all tasks.
func (n *node) reasons() map[events.TaskID]string {
	n.t.Helper()
	list, err := n.List(n.ctx(), api.ListRequest{})
	require.NoError(n.t, err)
	reasons := map[events.TaskID]string{}
	for _, s := range list.Tasks {
		reasons[s.ID] = s.Reason
	}
	return reasons
}

// A list after a restart equals the list before, also for tasks that were not read since.
func TestReasonsAfterARestart(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	failed := n.submit(onePlan)
	require.NoError(t, n.fail("w", n.take("w"), "denied"))
	require.Equal(t, statemachine.Failed, n.result(failed).State)
	cancelled := n.submit(keyedWait)
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: cancelled, Reason: "no longer wanted"})
	require.NoError(t, err)
	n.result(cancelled)
	done := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(done)
	approved := n.submit(personPlan) // it asks in its first commit
	_, err = n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	n.result(approved)
	before := n.reasons()
	require.NotEmpty(t, before[failed])
	require.Empty(t, before[approved])
	require.Equal(t, "no longer wanted", before[cancelled])
	n.stop()

	n = start(t, log)
	assert.Equal(t, before, n.reasons())
	assert.Equal(t, before, n.reasons(), "remembered")
}

// stuck is a log whose reads block while it is held.
type stuck struct {
	*memlog.Log

	held    atomic.Bool
	once    sync.Once
	entered chan struct{}
}

func (l *stuck) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if !l.held.Load() {
		return l.Log.Read(ctx, id, from)
	}
	return func(yield func(events.Stored, error) bool) {
		l.once.Do(func() { close(l.entered) }) // the index of lists may read it as well
		<-ctx.Done()
		yield(events.Stored{}, ctx.Err())
	}
}

// A task that is being read when the node stops is no error.
func TestStopWhileATaskIsRead(t *testing.T) {
	t.Parallel()
	log := &stuck{Log: memlog.New(memlog.Config{}), entered: make(chan struct{})}
	n := start(t, log.Log)
	id := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(id)
	n.stop()

	var lines bytes.Buffer
	n = start(t, log.Log, func(c *orchestrator.Config) {
		c.Log, c.Logger = log, slog.New(slog.NewTextHandler(&lines, nil))
	})
	log.held.Store(true)
	seen := make(chan error, 1)
	go func() {
		_, err := n.Get(context.Background(), api.GetRequest{ID: id})
		seen <- err
	}()
	<-log.entered
	n.stop()
	require.Error(t, <-seen)
	assert.Empty(t, lines.String())
}
