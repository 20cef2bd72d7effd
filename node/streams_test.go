package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

const orderPlan = `{"orch":"v1","name":"order","inputs":{"required":["n"],"properties":{"n":{"type":"integer"}}},
	"steps":[{"id":"a","set":{"text":"${{ hook.subject }} ${{ hook.body.n }} ${{ hook.headers['nats-msg-id'] }}"}}],"outputs":{"text":"${{ steps.a.output.text }}"}}`

// onOrders defines a hook on the stream ORDERS.
func onOrders(from hooks.From) api.PutHookRequest {
	return api.PutHookRequest{Name: "orders", Definition: hooks.Definition{
		Provider: hooks.NATS, NATS: &hooks.Stream{Name: "ORDERS", Subject: "orders.*.created", From: from},
		Plan: json.RawMessage(orderPlan), Inputs: json.RawMessage(`{"n":"${{ hook.body.n }}"}`),
	}}
}

// startedBy returns how often each n was the input of a task of the hook.
func startedBy(t *testing.T, a api.API) map[int]int {
	t.Helper()
	all := map[int]int{}
	for after := ""; ; {
		page, err := a.List(t.Context(), api.ListRequest{Labels: map[string]string{"hook": "orders"}, Limit: 100, Cursor: after})
		require.NoError(t, err)
		for _, task := range page.Tasks {
			v, err := a.Get(t.Context(), api.GetRequest{ID: task.ID})
			require.NoError(t, err)
			var in struct{ N int }
			require.NoError(t, json.Unmarshal(v.Inputs, &in))
			all[in.N]++
		}
		if after = page.Next; after == "" {
			return all
		}
	}
}

// each is one task for each number up to n.
func each(n int) map[int]int {
	all := map[int]int{}
	for i := range n {
		all[i] = 1
	}
	return all
}

func viewOf(t *testing.T, a api.API) api.HookView {
	t.Helper()
	reply, err := a.Hooks(t.Context(), api.HooksRequest{Name: "orders", Deliveries: hooks.MaxOutcomes})
	require.NoError(t, err)
	return reply.Hooks[0]
}

// Messages are published while the active node changes, twice: each starts one task.
func TestMessagesOfAStreamStartOneTaskEach(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	stream := bustest.NewStream(t, withCredential(t, server), "ORDERS", "orders.>")
	stream.Publish(t, "orders.eu.created", `{"n":999}`) // before the hook
	first, second := serveMember(t, server), serveMember(t, server)
	_, err := dialNode(t, first.cfg).PutHook(t.Context(), onOrders(""))
	require.NoError(t, err)
	const n = 120
	var publisher sync.WaitGroup
	half := make(chan struct{})
	publisher.Go(func() {
		for i := range n {
			if i == n/2 {
				close(half)
			}
			_, err := stream.TryPublish(t.Context(), "orders.eu.created", fmt.Sprintf(`{"n":%d}`, i), "Nats-Msg-Id", strconv.Itoa(i))
			_, other := stream.TryPublish(t.Context(), "orders.eu.paid", `{"n":-1}`)
			if err = errors.Join(err, other); !assert.NoError(t, err) {
				return
			}
		}
	})
	<-half
	first.shutDown()
	publisher.Wait()
	third := serveMember(t, server)
	second.shutDown()
	r := dialNode(t, third.cfg)
	require.Eventually(t, func() bool { return len(startedBy(t, r)) == n }, time.Minute, 100*time.Millisecond)
	assert.Equal(t, each(n), startedBy(t, r))
	require.Eventually(t, func() bool { w := viewOf(t, r).Waiting; return w != nil && *w == 0 }, time.Minute, 100*time.Millisecond)
	v := viewOf(t, r)
	assert.LessOrEqual(t, v.Counts[hooks.Accepted], n)
	assert.GreaterOrEqual(t, v.Counts[hooks.Accepted]+v.Counts[hooks.Duplicate], n, "each has an outcome; one whose record was lost came again")
	assert.Empty(t, v.Problem)
	page, err := r.List(t.Context(), api.ListRequest{Labels: map[string]string{"hook": "orders"}, Limit: 1})
	require.NoError(t, err)
	assert.Contains(t, string(result(t, r, page.Tasks[0].ID).Output), `orders.eu.created `)
}

// A paused hook leaves the messages in the stream, what can do nothing comes once, and a stream that is gone is a problem until it is back.
func TestHookOfAStream(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	url := withCredential(t, server)
	r := dialNode(t, serveMember(t, server).cfg)
	v, err := r.PutHook(t.Context(), onOrders(""))
	require.NoError(t, err)
	assert.Equal(t, "the stream ORDERS does not exist", v.Problem)
	stream := bustest.NewStream(t, url, "ORDERS", "orders.>")
	stream.Publish(t, "orders.a.created", `{"n":0}`)
	started := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return len(startedBy(t, r)) >= n }, time.Minute, 50*time.Millisecond)
		assert.Equal(t, each(n), startedBy(t, r))
	}
	started(1)
	assert.Empty(t, viewOf(t, r).Problem)

	for _, body := range []string{`{`, `{"n":"x"}`, `{"n":{}}`, `[]`, "\xff"} {
		stream.Publish(t, "orders.a.created", body)
	}
	stream.Publish(t, "orders.a.created", `{"n":1}`)
	started(2)
	assert.Equal(t, 5, viewOf(t, r).Counts[hooks.Refused])
	require.Eventually(t, func() bool { return *viewOf(t, r).Waiting == 0 }, time.Minute, 50*time.Millisecond)

	_, err = r.SteerHook(t.Context(), api.SteerHookRequest{Name: "orders", Act: api.ActPause})
	require.NoError(t, err)
	stream.Publish(t, "orders.a.created", `{"n":2}`)
	v = viewOf(t, r)
	assert.Equal(t, 1, *v.Waiting)
	assert.Equal(t, 2, v.Counts[hooks.Accepted])
	_, err = r.SteerHook(t.Context(), api.SteerHookRequest{Name: "orders", Act: api.ActResume})
	require.NoError(t, err)
	started(3)

	stream.Delete(t)
	require.Eventually(t, func() bool { return viewOf(t, r).Problem == "the stream ORDERS does not exist" }, time.Minute, 50*time.Millisecond)
	stream.Make(t)
	stream.Publish(t, "orders.a.created", `{"n":3}`) // at a position that there was before
	started(4)

	require.Len(t, stream.Consumers(t), 1)
	_, err = r.SteerHook(t.Context(), api.SteerHookRequest{Name: "orders", Act: api.ActDelete})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(stream.Consumers(t)) == 0 }, time.Minute, 50*time.Millisecond)
}

// A node with a server of its own has no streams of others.
func TestNoStreamsOnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	_, err := n.API().PutHook(t.Context(), onOrders(hooks.FromAll))
	require.True(t, fault.Has(err, fault.ValidationError), "%v", err)
	assert.Contains(t, err.Error(), "this node has a NATS server of its own")
	reply, err := n.API().Hooks(t.Context(), api.HooksRequest{})
	require.NoError(t, err)
	assert.Empty(t, reply.Hooks)
}
