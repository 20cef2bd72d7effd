package rpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/rpc"
)

// A worker cannot make the node publish messages with the node's own permissions.
func TestAnswersGoToInboxesAlone(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	commanded := make(chan struct{}, 1)
	for prefix, m := range map[string]rpc.Method{
		bus.WorkPrefix:    func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil },
		bus.CommandPrefix: func(context.Context, []byte) ([]byte, error) { commanded <- struct{}{}; return nil, nil },
	} {
		end, err := rpc.Serve(n.Conn, prefix, map[string]rpc.Method{"do": m}, rpc.EndpointConfig{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) })
	}
	nc, err := bustest.ConnectPlain(n.Server.Addr(), nats.UserInfo(bus.WorkerUser, bustest.Passwords(t, n.Config.DataDir)[bus.WorkerUser]), nats.CustomInboxPrefix("_INBOX_worker"))
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.PublishRequest(bus.WorkPrefix+".do", bus.CommandPrefix+".do", nil))
	agent := bus.AgentInbox(events.NewAgentID(time.Now()))
	listener, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer listener.Close()
	heard, err := listener.SubscribeSync(agent + ".>")
	require.NoError(t, err)
	require.NoError(t, listener.Flush())
	require.NoError(t, nc.PublishRequest(bus.WorkPrefix+".do", agent+".1", nil)) // the inbox of an agent may be guessed
	_, err = nc.Request(bus.WorkPrefix+".do", nil, time.Minute)
	require.NoError(t, err)
	require.NoError(t, rpc.Call(t.Context(), n.Conn, bus.WorkPrefix+".do", struct{}{}, nil))
	assert.Empty(t, commanded)
	require.NoError(t, n.Conn.NATS().Flush())
	require.NoError(t, listener.Flush())
	queued, _, err := heard.Pending()
	require.NoError(t, err)
	assert.Zero(t, queued)
}

// On an external server, its own users act as agents, with the permissions that docs/reference/agents.md names.
func TestAgentsAtAnExternalServer(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	ada, _ := c.enrol(t, "ada")
	bob, _ := c.enrol(t, "bob")
	user := func(id string) *server.User {
		return &server.User{Username: id, Password: "of " + id, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"orch.agent." + id + ".>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX." + id + ".>"}},
		}}
	}
	external, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "node", Password: "of the node"}, user(ada), user(bob), {Username: "w", Password: "of w", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"orch.work.>", "orch.notice.*"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_worker.>", "orch.news.nodes"}},
		}}},
	})
	require.NoError(t, err)
	external.Start()
	t.Cleanup(func() { external.Shutdown(); external.WaitForShutdown() })
	require.True(t, external.ReadyForConnections(time.Minute))
	there, err := bus.Dial(t.Context(), bus.DialConfig{URL: external.ClientURL(), User: "node", Password: "of the node"})
	require.NoError(t, err)
	t.Cleanup(there.Close)
	end, err := rpc.ServeAgentDispatcher(there, c.agents())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) })

	nc, err := bustest.ConnectPlain(external.ClientURL(), nats.UserInfo(ada, "of "+ada), nats.CustomInboxPrefix("_INBOX."+ada))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	v := &agentConn{Conn: nc, id: ada}
	answer, code := v.say(t, "status", `{}`)
	assert.Empty(t, code)
	assert.Contains(t, answer, "ada")
	_, err = nc.Request("orch.agent."+bob+".status", []byte(`{}`), 200*time.Millisecond)
	require.Error(t, err)
	_, err = c.tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "ada", Actor: "user:test"})
	require.NoError(t, err)
	_, code = v.say(t, "status", `{}`)
	assert.Equal(t, "401", code, "the connection is there, the agent is not")

	works, err := rpc.Serve(there, bus.WorkPrefix, map[string]rpc.Method{"do": func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil }}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, works.Close(t.Context())) })
	w, err := bus.Dial(t.Context(), bus.DialConfig{URL: strings.Replace(external.ClientURL(), "://", "://w:of%20w@", 1), Worker: true})
	require.NoError(t, err)
	t.Cleanup(w.Close)
	require.NoError(t, rpc.Call(t.Context(), w, bus.WorkPrefix+".do", struct{}{}, nil), "a worker works with the permissions of workers")
}
