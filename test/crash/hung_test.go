package crash_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// hungFor is how long acknowledgements may stay away when the server hangs to which everybody is connected: the link is given
// up after 3 s, the streams that the server led choose other leaders within 10 s, and a node that has lost its lease meanwhile
// becomes active again. A machine that is very busy takes many times as long.
const hungFor = 2 * time.Minute

// A server that hangs keeps its connections open and says nothing. Node, workers and clients leave it by themselves.
func TestHungServer(t *testing.T) {
	t.Parallel()
	r := startRun(t, options{cluster: true, first: true})
	hung := r.cluster.brokers[0]
	r.cluster.leadElsewhere("ORCH_EVENTS", "n0")
	r.mustEnd(t, startWithin)
	hung.signal(syscall.SIGSTOP)
	began := time.Now()
	r.mustEnd(t, hungFor)
	t.Logf("a task was submitted and done %s after the server hung", time.Since(began).Round(time.Millisecond))
	hung.signal(syscall.SIGCONT)
	r.cluster.stop()
}

// mustEnd submits a task and waits until it is done.
func (r *run) mustEnd(t *testing.T, within time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), within)
	defer stop()
	id := events.NewTaskID(time.Now())
	for {
		err := r.tryTask(ctx, id)
		if err == nil {
			return
		}
		require.NoError(t, ctx.Err(), "%s after: %v", within, err)
		require.True(t, fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout), "%v", err)
		wait(retryEvery)
	}
}

func (r *run) tryTask(ctx context.Context, id events.TaskID) error {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	plan, err := json.Marshal("orch: v1\nname: hung\nsteps:\n  - {id: a, tool: CRASH_IDEM}\n")
	if err != nil {
		return err
	}
	_, err = r.api.Submit(ctx, api.SubmitRequest{ID: id, Plan: plan})
	if err != nil {
		return err
	}
	reply, err := r.api.Result(ctx, api.ResultRequest{ID: id, Wait: oneAnswer})
	if err == nil && !reply.State.Terminal() {
		err = fault.New(fault.Timeout, "the task is %s", reply.State)
	}
	return err
}

// leadElsewhere lets another server than the named one lead a stream.
func (c *cluster) leadElsewhere(stream, server string) {
	c.t.Helper()
	nc, err := nats.Connect(c.natsURL())
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		s, err := js.Stream(c.t.Context(), stream)
		if err != nil || s.CachedInfo().Cluster == nil || s.CachedInfo().Cluster.Leader == "" {
			return false
		}
		if s.CachedInfo().Cluster.Leader != server {
			return true
		}
		_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, time.Second) // it is asked again
		return false
	}, clusterWithin, 200*time.Millisecond)
}
