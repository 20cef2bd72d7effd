package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/work"
)

// probe is a subject that a worker's connection is subscribed to while the server knows the connection.
const probe = "_INBOX_worker.probe"

// parked returns the connection of a worker that waits for work, and the answer to its poll.
func parked(t *testing.T, n *node.Node, dir, worker string) (*bus.Conn, <-chan work.Batch) {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: dir, User: bus.WorkerUser})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	answer := make(chan work.Batch, 1)
	go func() {
		b, err := rpc.NewRemote(c).Poll(context.WithoutCancel(t.Context()), work.Poll{Worker: worker, Free: 1, Wait: 20 * time.Second, LastBatch: 1})
		if err == nil {
			answer <- b
		}
	}()
	require.Eventually(t, func() bool { return knows(n, worker) }, time.Minute, time.Millisecond)
	return c, answer
}

func knows(n *node.Node, worker string) bool {
	s, err := n.API().Status(context.Background(), api.StatusRequest{})
	return err == nil && slices.ContainsFunc(s.Workers, func(w api.WorkerView) bool { return w.Name == worker })
}

// vanish ends a connection like the death of its process, and waits until the server has noticed.
func vanish(t *testing.T, c *bus.Conn, dir string) {
	t.Helper()
	_, err := c.NATS().SubscribeSync(probe)
	require.NoError(t, err)
	require.NoError(t, c.NATS().Flush())
	c.Close()
	o, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: dir})
	require.NoError(t, err)
	defer o.Close()
	require.Eventually(t, func() bool {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		return fault.Has(rpc.Call(ctx, o, probe, struct{}{}, nil), fault.Unavailable) // nobody is subscribed
	}, time.Minute, time.Millisecond)
}

// A call in the answer to a worker which died while it waited is dispatched to another worker at once, and does not count as a
// lost delivery.
func TestCallForAWorkerThatIsGone(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Worker.Concurrency = -1
	n := start(t, cfg)
	for _, name := range []string{"dead-1", "dead-2", "dead-3"} {
		c, _ := parked(t, n, cfg.DataDir, name)
		vanish(t, c, cfg.DataDir)
	}
	c, answer := parked(t, n, cfg.DataDir, "alive")

	began := time.Now()
	id := submit(t, n.API(), `{orch: v1, steps: [{id: a, tool: BASH_EXECUTE, with: {command: "true"}}]}`)
	b := <-answer
	assert.Less(t, time.Since(began), 10*time.Second, "long before a lease is over")
	require.Len(t, b.Calls, 1)
	assert.Equal(t, 1, b.Calls[0].Attempt)
	lost := fault.New(fault.ExecFailed, "not now")
	require.NoError(t, rpc.NewRemote(c).Report(t.Context(), work.Outcome{Ref: b.Calls[0].Ref, Worker: "alive", Error: lost, Class: "tool_error"}))
	result(t, n.API(), id)
	view, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Zero(t, view.Steps[0].Lost, "deliveries that count as lost")
	assert.Equal(t, "alive", view.Steps[0].Worker)
}
