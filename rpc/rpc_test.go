package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

func echo[T any](_ context.Context, in T) (T, error) { return in, nil }

type greeting struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

func serve(t *testing.T, n *bustest.Node, methods map[string]rpc.Method) *rpc.Endpoint {
	t.Helper()
	end, err := rpc.Serve(n.Conn, bus.CommandPrefix, methods, rpc.EndpointConfig{MaxRequests: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) }) // the context has ended: a hard stop
	return end
}

func TestCall(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	refusal := fault.New(fault.StateNotAllowed, "not now").WithField("task").WithHint("wait").WithReason("NotNow")
	serve(t, n, map[string]rpc.Method{
		"greet": rpc.Handle(echo[greeting]),
		"refuse": rpc.Handle(func(context.Context, struct{}) (struct{}, error) {
			return struct{}{}, refusal
		}),
		"leak": rpc.Handle(func(context.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.New("password is hunter2")
		}),
		"panic": func(context.Context, []byte) ([]byte, error) { panic("boom") },
		"big":   func(context.Context, []byte) ([]byte, error) { return make([]byte, bus.MaxPayload+1), nil },
	})
	c := bustest.Dial(t, n, "")
	call := func(method string, in any) error {
		return rpc.Call(t.Context(), c, bus.CommandPrefix+"."+method, in, nil)
	}

	var out greeting
	require.NoError(t, rpc.Call(t.Context(), c, bus.CommandPrefix+".greet", greeting{"ada", 2}, &out))
	assert.Equal(t, greeting{"ada", 2}, out)

	var e *fault.Error
	require.ErrorAs(t, call("refuse", struct{}{}), &e)
	assert.Equal(t, refusal, e, "code, message, reason, field and hint arrive")
	require.ErrorAs(t, call("leak", struct{}{}), &e)
	assert.Equal(t, fault.Internal, e.Code)
	assert.NotContains(t, e.Error(), "hunter2")
	assert.Equal(t, fault.Internal, fault.CodeOf(call("panic", struct{}{})))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(call("big", struct{}{})))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(call("greet", greeting{Name: string(bytes.Repeat([]byte("x"), bus.MaxPayload))})))
	assert.Equal(t, fault.MethodNotFound, fault.CodeOf(call("nothing", struct{}{})))
	assert.Equal(t, fault.InvalidParams, fault.CodeOf(call("greet", map[string]any{"nickname": "ada"})))
	require.ErrorAs(t, call("greet", map[string]any{"name": 3}), &e)
	assert.Equal(t, fault.InvalidParams, e.Code)
	assert.Equal(t, "name", e.Field)

	err := rpc.Call(t.Context(), c, "orch.nobody.home", struct{}{}, nil)
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.Unavailable, e.Code)
	assert.NotEmpty(t, e.Hint, "the next step")
}

func TestHandleRefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	m := rpc.Handle(echo[greeting])
	for request, want := range map[string]fault.Code{
		`{`:                    fault.ParseError,
		`nonsense`:             fault.ParseError,
		`{"name":"a"}{}`:       fault.ParseError,
		`{"name":"a"} trailer`: fault.ParseError,
		`[]`:                   fault.InvalidParams,
	} {
		_, err := m(t.Context(), []byte(request))
		assert.Equal(t, want, fault.CodeOf(err), "%s", request)
	}
	out, err := m(t.Context(), nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":""}`, string(out), "nothing is the zero value")
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	serve(t, n, map[string]rpc.Method{"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
		entered <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return []byte(`{}`), nil
	}})
	c := bustest.Dial(t, n, "")
	answers := make(chan error, 2)
	for range 2 {
		go func() { answers <- rpc.Call(t.Context(), c, bus.CommandPrefix+".wait", struct{}{}, nil) }()
		<-entered
	}
	err := rpc.Call(t.Context(), c, bus.CommandPrefix+".wait", struct{}{}, nil)
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	close(leave)
	require.NoError(t, <-answers)
	require.NoError(t, <-answers)
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	entered, gone := make(chan struct{}, 2), make(chan struct{}, 2)
	end := serve(t, n, map[string]rpc.Method{"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
		entered <- struct{}{}
		<-ctx.Done()
		gone <- struct{}{}
		return nil, ctx.Err()
	}})
	c := bustest.Dial(t, n, "")
	ctx, cancel := context.WithTimeout(t.Context(), 100_000_000)
	defer cancel()
	err := rpc.Call(ctx, c, bus.CommandPrefix+".wait", struct{}{}, nil)
	assert.Equal(t, fault.Timeout, fault.CodeOf(err))
	<-entered
	<-gone // the method's context ends with the caller's timeout

	answer := make(chan error, 1)
	go func() {
		answer <- rpc.Call(t.Context(), c, bus.CommandPrefix+".wait", struct{}{}, nil)
	}()
	<-entered
	hard, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, end.Close(hard), "a hard stop cancels what runs")
	assert.Equal(t, fault.Unavailable, fault.CodeOf(<-answer), "the caller may ask the next node")
}

// A stopping node ends waiting requests at once, and lets the others end by themselves.
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	entered, waited, leave := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	end := serve(t, n, map[string]rpc.Method{
		"watch": func(ctx context.Context, _ []byte) ([]byte, error) {
			entered <- struct{}{}
			<-ctx.Done()
			close(waited)
			return nil, ctx.Err()
		},
		"submit": func(ctx context.Context, _ []byte) ([]byte, error) {
			entered <- struct{}{}
			<-leave
			return []byte(`{}`), ctx.Err()
		},
	})
	c := bustest.Dial(t, n, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answers := map[string]chan error{"watch": make(chan error, 1), "submit": make(chan error, 1)}
	for name, answer := range answers {
		go func() { answer <- rpc.Call(ctx, c, bus.CommandPrefix+"."+name, struct{}{}, nil) }()
		<-entered
	}
	closed := make(chan error)
	go func() { closed <- end.Close(ctx) }()
	select {
	case <-waited:
	case <-time.After(time.Minute):
		t.Fatal("what waits goes on")
	}
	assert.Equal(t, fault.Unavailable, fault.CodeOf(<-answers["watch"]), "the caller may ask the next node")
	close(leave)
	require.NoError(t, <-answers["submit"])
	require.NoError(t, <-closed)
}

func TestLostConnectionEndsCalls(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	entered := make(chan struct{})
	serve(t, n, map[string]rpc.Method{"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	p := bustest.NewProxy(t, n.Server.Addr())
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: p.Address(), DataDir: n.Config.DataDir})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	answer := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { answer <- rpc.Call(ctx, c, bus.CommandPrefix+".wait", struct{}{}, nil) }()
	<-entered
	p.Cut()
	assert.Equal(t, fault.Unavailable, fault.CodeOf(<-answer))
}

// The address that a killed node has left may now belong to another node, which does not use this directory.
func TestAddressThatWasLeft(t *testing.T) {
	t.Parallel()
	mine, other := bustest.NewNode(t, bus.ServerConfig{}), bustest.NewNode(t, bus.ServerConfig{})
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	left := filepath.Join(mine.Config.DataDir, "node.json")
	for pid, want := range map[int]fault.Code{dead.Process.Pid: fault.Unavailable, os.Getpid(): fault.Unauthorized} {
		text, err := json.Marshal(map[string]any{"url": other.Server.Addr(), "pid": pid})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(left, text, 0o600))
		_, err = bus.Dial(t.Context(), bus.DialConfig{DataDir: mine.Config.DataDir})
		require.Error(t, err)
		assert.Equal(t, want, fault.CodeOf(err), "%v", err)
	}
}
