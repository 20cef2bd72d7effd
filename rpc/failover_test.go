package rpc_test

import (
	"context"
	"strings"
	"sync"
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

// dialOutside connects to the server of a node as if it were an external server.
func dialOutside(t *testing.T, n *bustest.Node) *bus.Conn {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: n.Server.Addr(), User: bus.OperatorUser, Password: bustest.Passwords(t, n.Config.DataDir)[bus.OperatorUser]})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A request is repeated if its node is gone and that is harmless.
func TestRequestsAreAskedAgain(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := dialOutside(t, n)
	for name, tc := range map[string]struct {
		method, reason string
		asked          int
	}{
		"a read":                                {"get", bus.OutcomeUnknown, 2},
		"a submission, which has an id":         {"submit_batch", bus.OutcomeUnknown, 2},
		"a cancellation may have been made":     {"cancel", bus.OutcomeUnknown, 1},
		"a cancellation that the log has not":   {"cancel", bus.Fenced, 2},
		"a retry may have begun something else": {"retry", bus.Fenced, 1},
		"another refusal":                       {"get", "FULL", 1},
	} {
		asked := 0
		end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{
			tc.method: func(context.Context, []byte) ([]byte, error) {
				if asked++; asked == 1 {
					return nil, fault.New(fault.Unavailable, "gone").WithReason(tc.reason)
				}
				return []byte(`{}`), nil
			},
		}, rpc.EndpointConfig{})
		require.NoError(t, err)
		err = rpc.Call(t.Context(), c, bus.CommandPrefix+"."+tc.method, struct{}{}, nil)
		require.NoError(t, end.Close(t.Context()))
		assert.Equal(t, tc.asked, asked, name)
		assert.Equal(t, tc.asked == 1, err != nil, name)
	}
}

// A tunnel is dialled again if it is not known whether the lost node has accepted it.
func TestTunnelsAreDialledAgain(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := dialOutside(t, n)
	asked := 0
	prefix, method, _ := strings.Cut(bus.TunnelSubject, ".")
	end, err := rpc.Serve(n.Conn, prefix, map[string]rpc.Method{
		method: func(context.Context, []byte) ([]byte, error) {
			if asked++; asked == 1 {
				return nil, fault.New(fault.Unavailable, "gone").WithReason(bus.OutcomeUnknown)
			}
			return []byte("_INBOX.peer"), nil
		},
	}, rpc.EndpointConfig{})
	require.NoError(t, err)
	tunnel, err := rpc.DialTunnel(t.Context(), c, bus.TunnelSubject)
	require.NoError(t, err)
	require.NoError(t, tunnel.Close())
	require.NoError(t, end.Close(t.Context()))
	assert.Equal(t, 2, asked)
}

// submitOwner answers batches of submissions, in turn, and records them.
type submitOwner struct {
	mu     sync.Mutex // guards the fields below
	asked  [][]api.SubmitRequest
	answer func(times int, task api.SubmitRequest) error
	// gone is called from the second request on, which then fails as a whole; nil for no failure.
	gone func()
}

// serve serves submissions and returns a remote for them, on an external server.
func (o *submitOwner) serve(t *testing.T) *rpc.Remote {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{})
	end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{"submit_batch": rpc.Handle(o.submit)}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	return rpc.NewRemote(dialOutside(t, n))
}

func (o *submitOwner) submit(_ context.Context, in api.SubmitBatchRequest) (reply api.SubmitBatchReply, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, in.Tasks)
	if o.gone != nil && len(o.asked) > 1 {
		o.gone()
		return reply, fault.New(fault.Unavailable, "gone").WithReason(bus.OutcomeUnknown)
	}
	for _, task := range in.Tasks {
		item := api.SubmitBatchItem{SubmitReply: api.SubmitReply{ID: task.ID}}
		if err := o.answer(len(o.asked), task); err != nil {
			item = api.SubmitBatchItem{Error: fault.From(err)}
		}
		reply.Tasks = append(reply.Tasks, item)
	}
	return reply, nil
}

// requests returns the requests since the last call.
func (o *submitOwner) requests() [][]api.SubmitRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = nil
	return asked
}

// refuseTwice refuses some tasks by their names, like a node that ends, and accepts them after the second time.
func refuseTwice(times int, task api.SubmitRequest) error {
	reasons := map[string]string{"doubt": bus.OutcomeUnknown, "fenced": bus.Fenced, "full": "FULL"}
	if reasons[task.Name] == "" || times > 2 {
		return nil
	}
	return fault.New(fault.Unavailable, "no").WithReason(reasons[task.Name])
}

func named(names ...string) (tasks []api.SubmitRequest) {
	for _, name := range names {
		tasks = append(tasks, api.SubmitRequest{Name: name, Plan: []byte(`{}`)})
	}
	return tasks
}

// The tasks of a batch with an unknown result are submitted again, without the others and with the same ids.
func TestTasksOfABatchAreSubmittedAgain(t *testing.T) {
	t.Parallel()
	owner := &submitOwner{answer: refuseTwice}
	reply, err := owner.serve(t).SubmitBatch(t.Context(), api.SubmitBatchRequest{Tasks: named("good", "doubt", "full", "fenced")})
	require.NoError(t, err)
	asked := owner.requests()
	first := asked[0]
	again := []api.SubmitRequest{first[1], first[3]}
	assert.Equal(t, [][]api.SubmitRequest{first, again, again}, asked)
	for _, i := range []int{0, 1, 3} {
		assert.NotEmpty(t, first[i].ID)
		assert.Equal(t, api.SubmitBatchItem{SubmitReply: api.SubmitReply{ID: first[i].ID}}, reply.Tasks[i])
	}
	assert.Equal(t, "FULL", reply.Tasks[2].Error.Reason, "what was not taken for another reason")
}

// A single submission, which may share its message with others, is repeated as well.
func TestSubmissionIsMadeAgain(t *testing.T) {
	t.Parallel()
	owner := &submitOwner{answer: refuseTwice}
	reply, err := owner.serve(t).Submit(t.Context(), named("doubt")[0])
	require.NoError(t, err)
	asked := owner.requests()
	assert.Equal(t, [][]api.SubmitRequest{asked[0], asked[0], asked[0]}, asked)
	assert.Equal(t, asked[0][0].ID, reply.ID)
}

// If the result of a task of a batch stays unknown, that is the answer for this task only.
func TestBatchWhoseNodeStaysAway(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	owner := &submitOwner{answer: refuseTwice, gone: stop}
	reply, err := owner.serve(t).SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: named("good", "doubt")})
	require.NoError(t, err)
	require.Len(t, reply.Tasks, 2)
	assert.Len(t, owner.requests(), 2)
	assert.Nil(t, reply.Tasks[0].Error)
	assert.NotEmpty(t, reply.Tasks[0].ID)
	assert.Equal(t, bus.OutcomeUnknown, reply.Tasks[1].Error.Reason)
}

// A request waits if there is no node.
func TestRequestsWaitForANode(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := dialOutside(t, n)
	answer := make(chan error, 1)
	go func() { answer <- rpc.Call(t.Context(), c, bus.CommandPrefix+".retry", struct{}{}, nil) }()
	select {
	case err := <-answer:
		t.Fatal("it did not wait: ", err)
	case <-time.After(200 * time.Millisecond):
	}
	end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{"retry": func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil }}, rpc.EndpointConfig{})
	require.NoError(t, err)
	require.NoError(t, <-answer)
	require.NoError(t, end.Close(t.Context()))
}

// The error of a request whose endpoint closes meanwhile: only a request that may have been executed is in doubt.
func TestRequestsThatTheEndCutsShort(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	fencedOut := fault.New(fault.Unavailable, "another node").WithReason(bus.Fenced)
	inDoubt := fault.New(fault.Unavailable, "who knows").WithReason(bus.OutcomeUnknown)
	for name, tc := range map[string]struct {
		method string
		says   error // the fault of the context when nil
		reason string
	}{
		"a read":                           {"get", nil, "NODE_STOPPING"},
		"a cancellation":                   {"cancel", nil, bus.OutcomeUnknown},
		"a retry":                          {"retry", nil, bus.OutcomeUnknown},
		"an append that may be in the log": {"retry", inDoubt, bus.OutcomeUnknown},
		"an append that is not":            {"cancel", fencedOut, bus.Fenced},
		"a log that is closing":            {"retry", fault.New(fault.Unavailable, "the log is closing"), "NODE_STOPPING"},
	} {
		begun := make(chan struct{})
		end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{
			tc.method: func(ctx context.Context, _ []byte) ([]byte, error) {
				close(begun)
				<-ctx.Done()
				if tc.says != nil {
					return nil, tc.says
				}
				return nil, fault.From(ctx.Err())
			},
		}, rpc.EndpointConfig{})
		require.NoError(t, err)
		answer := make(chan error, 1)
		go func() { answer <- rpc.Call(t.Context(), n.Conn, bus.CommandPrefix+"."+tc.method, struct{}{}, nil) }()
		<-begun
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, end.Close(over))
		err = <-answer
		assert.True(t, fault.Has(err, fault.Unavailable), "%s: %v", name, err)
		assert.Equal(t, tc.reason, fault.From(err).Reason, name)
	}
}

// With Everyone, a stalled node does not keep requests from the others.
func TestEveryoneAnswers(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	end, err := rpc.Serve(n.Conn, "orch.nodes", map[string]rpc.Method{
		"members": func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil },
	}, rpc.EndpointConfig{Everyone: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	for range 8 {
		_, err = nc.QueueSubscribe("orch.nodes.*", "orch", func(*nats.Msg) {}) // stalled
		require.NoError(t, err)
	}
	require.NoError(t, nc.Flush())
	for range 16 {
		require.NoError(t, rpc.Call(t.Context(), n.Conn, "orch.nodes.members", nil, nil))
	}
}
