package rpc_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// tunnelled returns an HTTP client for a server behind tunnels.
func tunnelled(t *testing.T, n *bustest.Node, handler http.Handler) *http.Client {
	t.Helper()
	listener, err := rpc.ListenTunnel(n.Conn, "orch.tunnel", 16)
	require.NoError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { assert.NoError(t, server.Close()); <-ended })
	c, err := n.Server.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return rpc.DialTunnel(ctx, c, "orch.tunnel")
	}}}
}

// HTTP works through a tunnel in both directions, for any size.
func TestTunnel(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	client := tunnelled(t, n, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	for _, size := range []int{0, 1, 64 << 10, 3<<20 + 7} {
		sent := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		answer, err := client.Post("http://active/", "text/plain", bytes.NewReader(sent))
		require.NoError(t, err)
		got, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.True(t, bytes.Equal(sent, got), size)
	}
}

// A stream arrives while it is written, and ends on one side when it ends on the other.
func TestTunnelOfAStream(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	gone := make(chan struct{})
	client := tunnelled(t, n, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://active/", nil)
	require.NoError(t, err)
	answer, err := client.Do(request)
	require.NoError(t, err)
	first := make([]byte, len("first\n"))
	_, err = io.ReadFull(answer.Body, first)
	require.NoError(t, err)
	assert.Equal(t, "first\n", string(first))
	cancel()
	_ = answer.Body.Close() // the request was cancelled
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the other side does not hear of the end")
	}
}

// Nobody can dial a subject at which others listen.
func TestTunnelAnswersInboxesAlone(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	handled := make(chan struct{}, 1)
	_ = tunnelled(t, n, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled <- struct{}{} }))
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request("orch.tunnel", []byte("orch.cmd.cancel"), 200*time.Millisecond)
	require.Error(t, err)
	assert.Empty(t, handled)
}

// A tunnel above the limit is refused. There is room again when another one has ended.
func TestTunnelsAreBounded(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	listener, err := rpc.ListenTunnel(n.Conn, "orch.tunnel", 1)
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // it never fails
	accepted := make(chan net.Conn, 2)
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			accepted <- c
		}
	}()
	c, err := n.Server.Connect(t.Context())
	require.NoError(t, err)
	defer c.Close()
	first, err := rpc.DialTunnel(t.Context(), c, "orch.tunnel")
	require.NoError(t, err)
	_, err = rpc.DialTunnel(t.Context(), c, "orch.tunnel")
	require.Equal(t, fault.RateLimited, fault.CodeOf(err), "%v", err)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		again, err := rpc.DialTunnel(t.Context(), c, "orch.tunnel")
		return err == nil && again.Close() == nil
	}, time.Minute, time.Millisecond)
}
