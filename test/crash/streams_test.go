package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
)

const (
	orders      = 240
	ordersName  = "order"
	ordersPlan  = "orch: v1\nname: " + ordersName + "\ninputs: {properties: {n: {type: integer}}, required: [n]}\nsteps: [{id: a, set: {n: \"${{ inputs.n }}\"}}]\noutputs: {n: \"${{ steps.a.output.n }}\"}\n"
	ordersTaken = 90 * time.Second
)

// market has a replicated stream of others, to which messages are published.
type market struct {
	t       *testing.T
	cluster *cluster
	js      jetstream.JetStream
	acked   atomic.Int64
	// trapped is set if the node died at a failpoint.
	trapped bool
}

func openMarket(t *testing.T, c *cluster) *market {
	t.Helper()
	nc, err := nats.Connect(c.urlAs(adminOfBrokers), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Replicas: brokerCount})
	require.NoError(t, err)
	return &market{t: t, cluster: c, js: js}
}

// publish publishes all orders, each as often as it takes: the stream knows by their ids which it has already.
func (m *market) publish(ctx context.Context) {
	for i := range orders {
		for ctx.Err() == nil {
			within, stop := context.WithTimeout(ctx, time.Second)
			_, err := m.js.Publish(within, "orders.eu", fmt.Appendf(nil, `{"n":%d}`, i), jetstream.WithMsgID(strconv.Itoa(i)))
			stop()
			if err == nil {
				m.acked.Add(1)
				break
			}
		}
		wait(20 * time.Millisecond)
	}
}

// killLeader kills the server that leads a stream, and starts it again.
func (m *market) killLeader(stream string) {
	m.t.Helper()
	leader := ""
	for end := time.Now().Add(clusterWithin); leader == "" && time.Now().Before(end); wait(50 * time.Millisecond) {
		if s, err := m.js.Stream(m.t.Context(), stream); err == nil && s.CachedInfo().Cluster != nil {
			leader = s.CachedInfo().Cluster.Leader
		}
	}
	require.NotEmpty(m.t, leader, "%s has no leader", stream)
	n, err := strconv.Atoi(strings.TrimPrefix(leader, "n"))
	require.NoError(m.t, err)
	b := m.cluster.brokers[n]
	b.kill()
	wait(500 * time.Millisecond)
	m.cluster.startBroker(b)
}

// killNode kills the node and starts it again. With failpoints it dies when a commit is durable, before the message that led to it is
// acknowledged.
func (m *market) killNode() {
	m.t.Helper()
	m.cluster.node.arm(trap{failpoint.Appended, 3})
	m.trapped = m.cluster.node.diesWithin(trappedWithin)
	m.cluster.startNode()
}

// awaitTaken waits until the hook has taken all messages, and returns how many of the last ones came again.
func (m *market) awaitTaken(remote *rpc.Remote) (again int) {
	m.t.Helper()
	for end := time.Now().Add(ordersTaken); ; wait(200 * time.Millisecond) {
		reply, _, err := insist(m.t.Context(), remote.Hooks, api.HooksRequest{Name: ordersName, Deliveries: hooks.MaxOutcomes})
		require.NoError(m.t, err)
		h := reply.Hooks[0]
		if h.Waiting != nil && *h.Waiting == 0 {
			for _, o := range h.Deliveries {
				if o.Result == hooks.Duplicate {
					again++
				}
			}
			return again
		}
		require.True(m.t, time.Now().Before(end), "the hook has not taken all: %+v", h)
	}
}

// started returns how many tasks there are for each order.
func (m *market) started(remote *rpc.Remote) map[int]int {
	m.t.Helper()
	list, _, err := insist(m.t.Context(), remote.List, api.ListRequest{Name: ordersName, Limit: 1000})
	require.NoError(m.t, err)
	all := map[int]int{}
	for _, task := range list.Tasks {
		r, _, err := insist(m.t.Context(), remote.Result, api.ResultRequest{ID: task.ID, Wait: answerWithin})
		require.NoError(m.t, err)
		require.Equal(m.t, statemachine.Done, r.State, "%s", r.Reason)
		var out struct {
			N int `json:"n"`
		}
		require.NoError(m.t, json.Unmarshal(r.Output, &out))
		all[out.N]++
	}
	return all
}

// A hook takes the messages of a replicated stream while the servers that lead the stream, or the log of orch, are killed, one after the
// other, and then the node. Each acknowledged message starts one task, and the documented permissions suffice for all that orch does.
func TestHookOfAReplicatedStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startCluster(t, dir, options{cluster: true, restricted: true})
	m := openMarket(t, c)
	remote := dial(t, c)
	_, _, err := insist(t.Context(), remote.PutHook, api.PutHookRequest{Name: ordersName, Definition: hooks.Definition{
		Provider: hooks.NATS, NATS: &hooks.Stream{Name: "ORDERS", Subject: "orders.*", From: hooks.FromAll},
		Plan: json.RawMessage(strconv.Quote(ordersPlan)), Inputs: json.RawMessage(`{"n":"${{ hook.body.n }}"}`),
	}})
	require.NoError(t, err)
	var publisher sync.WaitGroup
	publisher.Go(func() { m.publish(t.Context()) })
	kills := []func(){func() { m.killLeader("ORDERS") }, func() { m.killLeader("ORCH_EVENTS") }, func() { m.killLeader("ORDERS") }, m.killNode}
	for i, kill := range kills {
		for m.acked.Load() < int64((i+1)*orders/(len(kills)+1)) {
			wait(10 * time.Millisecond)
		}
		kill()
	}
	publisher.Wait()
	require.EqualValues(t, orders, m.acked.Load())
	again := m.awaitTaken(remote)
	assert.True(t, again > 0 || !m.trapped, "what the node had taken when it was killed comes again")
	started := m.started(remote)
	for n := range orders {
		assert.Equal(t, 1, started[n], "tasks of the order %d", n)
	}
	assert.Len(t, started, orders)
	logs, err := os.ReadFile(filepath.Join(dir, roleBroker+".log"))
	require.NoError(t, err)
	assert.NotContains(t, string(logs), "Violation")
}
