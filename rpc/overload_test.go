package rpc_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// overloadedAt is a refusal that may be repeated at once.
func overloadedAt() error { return fault.NewOverloaded(time.Now().Add(-time.Minute), "too much") }

// A submission that an overloaded node refuses is repeated, and the caller is told.
func TestRefusedSubmissionsAreRepeated(t *testing.T) {
	t.Parallel()
	refuseOnce := func(times int, task api.SubmitRequest) error {
		if times == 1 && task.Name != "good" {
			return overloadedAt()
		}
		return nil
	}
	var told atomic.Int64
	ctx := rpc.OnRefusal(t.Context(), func(*fault.Error) { told.Add(1) })
	owner := &submitOwner{answer: refuseOnce}
	remote := owner.serve(t)
	reply, err := remote.SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: named("good", "late")})
	require.NoError(t, err)
	asked := owner.requests()
	require.Len(t, asked, 2)
	assert.Equal(t, asked[0][1:], asked[1], "only what was refused, with the same id")
	assert.Nil(t, reply.Tasks[1].Error)
	assert.EqualValues(t, 1, told.Load())

	_, err = remote.Submit(ctx, named("late")[0])
	require.NoError(t, err)
	assert.Len(t, owner.requests(), 2)
	assert.EqualValues(t, 2, told.Load())
}

// Each method of the API is repeated, whatever its effect: nothing of a refused request was done.
func TestRefusedRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	var asked atomic.Int64
	serve(t, n, map[string]rpc.Method{"retry": rpc.Handle(func(context.Context, api.RetryRequest) (api.SubmitReply, error) {
		if asked.Add(1) < 3 {
			return api.SubmitReply{}, overloadedAt()
		}
		return api.SubmitReply{}, nil
	})})
	_, err := rpc.NewRemote(bustest.Dial(t, n, "")).Retry(t.Context(), api.RetryRequest{})
	require.NoError(t, err)
	assert.EqualValues(t, 3, asked.Load())
}

// A request that arrives after it has waited too long is refused. Without that, the context of its method ends before the patience
// of the caller.
func TestRequestsThatArriveLate(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	left := make(chan time.Duration, 1)
	end, err := rpc.Serve(n.Conn, "late", map[string]rpc.Method{"do": func(ctx context.Context, _ []byte) ([]byte, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return []byte(`{}`), nil
	}}, rpc.EndpointConfig{BeginWithin: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	for name, test := range map[string]struct {
		until   time.Duration
		refused bool
	}{"at once": {time.Minute, false}, "soon": {55 * time.Second, false}, "late": {45 * time.Second, true}, "after its end": {-time.Second, true}} {
		m := nats.NewMsg("late.do")
		m.Header.Set("Orch-Timeout", "60000")
		m.Header.Set("Orch-Until", strconv.FormatInt(time.Now().Add(test.until).UnixMilli(), 10))
		reply, err := n.Conn.NATS().RequestMsgWithContext(t.Context(), m)
		require.NoError(t, err, name)
		if test.refused {
			assert.Contains(t, string(reply.Data), fault.Overloaded, name)
			continue
		}
		assert.Less(t, <-left, test.until-9*time.Second, name)
	}
}
