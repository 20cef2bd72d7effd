package rpc_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/work"
)

// batchOwner answers submissions by their names, and counts the messages that contain them.
type batchOwner struct {
	messages atomic.Int64
	entered  chan struct{}
	open     chan struct{}
}

func (c *batchOwner) submit(_ context.Context, in api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	c.messages.Add(1)
	c.entered <- struct{}{}
	<-c.open
	var reply api.SubmitBatchReply
	for _, task := range in.Tasks {
		item := api.SubmitBatchItem{SubmitReply: api.SubmitReply{ID: events.TaskID(task.Name)}}
		if strings.HasSuffix(task.Name, "3") {
			item = api.SubmitBatchItem{Error: fault.New(fault.Conflict, "not %s", task.Name)}
		}
		reply.Tasks = append(reply.Tasks, item)
	}
	return reply, nil
}

// newBatchOwner serves submissions on a node, and returns a remote for them.
func newBatchOwner(t *testing.T) (*batchOwner, *rpc.Remote) {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := &batchOwner{entered: make(chan struct{}, 1000), open: make(chan struct{})}
	end, err := rpc.Serve(n.Conn, bus.CommandPrefix, map[string]rpc.Method{"submit_batch": rpc.Handle(c.submit)}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) })
	return c, rpc.NewRemote(bustest.Dial(t, n, ""))
}

func TestRequestsShareMessages(t *testing.T) {
	t.Parallel()
	const requests, trips = 100, 4
	c, remote := newBatchOwner(t)
	var group sync.WaitGroup
	submit := func(i int) {
		name := strconv.Itoa(i)
		reply, err := remote.Submit(t.Context(), api.SubmitRequest{Name: name, Plan: json.RawMessage(`{}`)})
		if strings.HasSuffix(name, "3") {
			assert.ErrorContains(t, err, "not "+name)
			return
		}
		assert.Equal(t, []any{events.TaskID(name), nil}, []any{reply.ID, err})
	}
	for i := range trips {
		group.Go(func() { submit(i) })
	}
	for range trips {
		<-c.entered
	}
	for i := trips; i < requests; i++ {
		group.Go(func() { submit(i) })
	}
	for range 4 { // more than fits into one message
		group.Go(func() {
			_, err := remote.Submit(t.Context(), api.SubmitRequest{Name: "large", Plan: json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)})
			assert.NoError(t, err)
		})
	}
	close(c.open)
	group.Wait()
	assert.Less(t, c.messages.Load(), int64(requests/2))
	submit(requests) // and alone again
}

// A request that is too large for any message does not fail the requests that it could have been batched with. One that is just
// small enough is not refused because of them.
func TestTooLargeRequestFailsAlone(t *testing.T) {
	t.Parallel()
	need.Long(t)
	const trips = 4
	c, remote := newBatchOwner(t)
	submit := func(bytes int) error {
		_, err := remote.Submit(t.Context(), api.SubmitRequest{Plan: json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)})
		return err
	}
	var group sync.WaitGroup
	for range trips {
		group.Go(func() { assert.NoError(t, submit(1)) })
		<-c.entered
	}
	for range 5 {
		group.Go(func() { assert.NoError(t, submit(1000)) })
		group.Go(func() { assert.NoError(t, submit(bus.MaxPayload-1000)) })
		group.Go(func() { assert.Equal(t, fault.ValidationError, fault.CodeOf(submit(bus.MaxPayload))) })
	}
	close(c.open)
	group.Wait()
}

func TestRequestThatCannotBeEncodedFailsAlone(t *testing.T) {
	t.Parallel()
	c, remote := newBatchOwner(t)
	close(c.open)
	_, err := remote.Submit(t.Context(), api.SubmitRequest{Plan: json.RawMessage(`{`)})
	assert.Equal(t, fault.Internal, fault.CodeOf(err))
	assert.Zero(t, c.messages.Load())
}

func TestSharedRequestsFailTogether(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	remote := rpc.NewRemote(bustest.Dial(t, n, ""))
	_, err := remote.Submit(t.Context(), api.SubmitRequest{})
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err), "nobody serves")
	assert.Equal(t, fault.Unavailable, fault.CodeOf(remote.Report(t.Context(), work.Outcome{})))
}

// miscountingOwner panics for some outcomes.
type miscountingOwner struct{ work.Source }

func (miscountingOwner) ReportThen(_ context.Context, o *work.Outcome, done func(error)) {
	if o.Step == "bad" {
		panic("boom")
	}
	done(nil)
	if o.Step == "late" {
		panic("boom")
	}
}

// An outcome that causes a panic does not end the node, and the other outcomes are recorded.
func TestPanicOfOneOutcome(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	end, err := rpc.ServeOwner(n.Conn, miscountingOwner{}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	remote := rpc.NewRemote(bustest.Dial(t, n, ""))
	assert.Equal(t, fault.Internal, fault.CodeOf(remote.Report(t.Context(), work.Outcome{Ref: work.Ref{Step: "bad"}})))
	assert.NoError(t, remote.Report(t.Context(), work.Outcome{Ref: work.Ref{Step: "late"}}), "it was taken before")
	assert.NoError(t, remote.Report(t.Context(), work.Outcome{Ref: work.Ref{Step: "good"}}))
}

func TestCallerOfASharedRequestMayLeave(t *testing.T) {
	t.Parallel()
	c, remote := newBatchOwner(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _, _ = remote.Submit(t.Context(), api.SubmitRequest{}) })
		<-c.entered
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := remote.Submit(ctx, api.SubmitRequest{})
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	close(c.open)
	group.Wait()
}
