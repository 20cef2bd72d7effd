package rpc_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// A node serves requests of its own version of the protocol and of older ones, and those that name none. It refuses newer ones before
// it reads them, and says both versions.
func TestProtocolVersion(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	served := 0
	serve(t, n, map[string]rpc.Method{"greet": rpc.Handle(echo[greeting])})
	c := bustest.Dial(t, n, "")
	ask := func(method, body string, header nats.Header) *fault.Error {
		reply, err := c.NATS().RequestMsg(&nats.Msg{Subject: bus.CommandPrefix + "." + method, Data: []byte(body), Header: header}, time.Minute)
		require.NoError(t, err)
		if reply.Header.Get("Orch-Error") == "" {
			served++
			return nil
		}
		var e fault.Error
		require.NoError(t, json.Unmarshal(reply.Data, &e))
		return &e
	}
	for _, version := range []string{"", "1", strconv.Itoa(rpc.ProtocolVersion)} {
		assert.Nil(t, ask("greet", `{"name":"ada"}`, nats.Header{"Orch-Protocol": {version}}), "version %q", version)
	}
	assert.Nil(t, ask("greet", `{"name":"ada"}`, nil), "a request of 0.1.0")
	assert.Equal(t, 4, served)

	newer := nats.Header{"Orch-Protocol": {strconv.Itoa(rpc.ProtocolVersion + 1)}}
	for method, body := range map[string]string{"greet": `{"name":"ada"}`, "later": `{}`} {
		e := ask(method, body, newer)
		require.NotNil(t, e)
		assert.Equal(t, fault.NewerRequest, e.Code)
		assert.Equal(t, fmt.Sprintf("the request has version %d of the protocol, this node knows 1 to %d", rpc.ProtocolVersion+1, rpc.ProtocolVersion), e.Message)
		assert.Contains(t, e.Hint, "use a newer orch")
	}
	for _, far := range []string{"99999999999", "99999999999999999999"} {
		e := ask("greet", `{}`, nats.Header{"Orch-Protocol": {far}})
		require.NotNil(t, e, far)
		assert.Equal(t, fault.NewerRequest, e.Code, far)
	}
	for _, wrong := range []string{"0", "-1", "two", "1.5"} {
		e := ask("greet", `{}`, nats.Header{"Orch-Protocol": {wrong}})
		require.NotNil(t, e, wrong)
		assert.Equal(t, fault.InvalidRequest, e.Code, wrong)
		assert.Equal(t, "Orch-Protocol", e.Field, wrong)
	}
}

// What a newer orch adds to a version of the protocol is refused by name, with the advice to use it for the node.
func TestUnknownOfTheSameVersion(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	serve(t, n, map[string]rpc.Method{"greet": rpc.Handle(echo[greeting])})
	c := bustest.Dial(t, n, "")
	for method, want := range map[string]fault.Code{"later": fault.MethodNotFound, "greet": fault.InvalidParams} {
		err := rpc.Call(t.Context(), c, bus.CommandPrefix+"."+method, map[string]any{"mood": "good"}, nil)
		assert.Equal(t, want, fault.CodeOf(err))
		assert.Contains(t, fault.From(err).Hint, "a newer orch")
	}
}

// Every request names its version.
func TestRequestsNameTheirVersion(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	seen := make(chan string, 1)
	sub, err := n.Conn.NATS().Subscribe(bus.CommandPrefix+".greet", func(m *nats.Msg) {
		seen <- m.Header.Get("Orch-Protocol")
		assert.NoError(t, m.Respond([]byte(`{}`)))
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	require.NoError(t, rpc.Call(t.Context(), bustest.Dial(t, n, ""), bus.CommandPrefix+".greet", greeting{"ada", 1}, nil))
	assert.Equal(t, strconv.Itoa(rpc.ProtocolVersion), <-seen)
}
