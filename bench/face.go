package bench

import (
	"context"
	"net/http"
	"strconv"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// mcpClients is the number of MCP clients in most rows of this file, each with one session.
const mcpClients = 16

// mcpRows measures the MCP endpoint of a node. Calls are compared with those of an SDK server that has only a no-op tool, lists of
// tools with calls of the node.
// The rows mcp-call use SDK clients. The rows mcp-wire use minimal clients, so that mainly the servers are measured.
func mcpRows() []measurement {
	return []measurement{
		callRow("mcp-call-stateful", "MCP tools/call, 16 sessions of 2025-11-25", sdkCaller(versionStateful)),
		callRow("mcp-call-stateless", "MCP tools/call, 16 clients of 2026-07-28", sdkCaller(versionStateless)),
		callRow("mcp-wire-stateful", "MCP tools/call, 16 sessions of 2025-11-25, lean clients", lean(false, (*mcpClient).call)),
		callRow("mcp-wire-stateless", "MCP tools/call, 16 clients of 2026-07-28, lean clients", lean(true, (*mcpClient).call)),
		listRow("mcp-list-stateful", "MCP tools/list beside tools/call, 16 sessions of 2025-11-25, lean clients", false),
		listRow("mcp-list-stateless", "MCP tools/list beside tools/call, 16 clients of 2026-07-28, lean clients", true),
		{[]string{"mcp-get-p50", "mcp-get-p99"}, measureGets},
		{[]string{"mcp-session", "mcp-session-closed"}, measureSessions},
	}
}

// connector connects one client. request sends a request and waits for the answer, end disconnects the client.
type connector func(ctx context.Context, transport http.RoundTripper, url, token string) (request func(context.Context) error, end func(), err error)

// callRow measures calls with one kind of client.
func callRow(id, name string, connect connector) measurement {
	return faceRow(id, name, "tasks/s", RoleFace, connect, RoleBareFace, connect)
}

// listRow measures lists of tools. They are compared with calls of the same node.
func listRow(id, name string, stateless bool) measurement {
	return faceRow(id, name, "lists/s", RoleFace, lean(stateless, (*mcpClient).list), RoleFace, lean(stateless, (*mcpClient).call))
}

// faceRow measures the requests of clients to a server, and those of other clients to the server that it is compared with.
func faceRow(id, name, unit string, role Role, connect connector, bare Role, connectBare connector) measurement {
	starter := func(role Role, connect connector) func(context.Context, Config, string, string) (*system, error) {
		return func(ctx context.Context, c Config, dir, durability string) (*system, error) {
			return c.clients(ctx, role, dir, durability, connect)
		}
	}
	l := layout{name: "node and driver", orch: starter(role, connect), bare: starter(bare, connectBare)}
	w := workload{id: id, name: name, inFlight: mcpClients}
	return measurement{[]string{id}, func(ctx context.Context, run *benchRun, durability string) ([]Row, error) {
		rows, err := l.measure(ctx, run.Config, w, []string{id}, durability)
		for i := range rows {
			rows[i].Unit = unit
		}
		return rows, err
	}}
}

// lean returns a connector for minimal clients that send one kind of request.
func lean(stateless bool, request func(*mcpClient, context.Context) error) connector {
	return func(ctx context.Context, transport http.RoundTripper, url, token string) (func(context.Context) error, func(), error) {
		client, err := newMCPClient(ctx, transport, url, token, stateless)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) error { return request(client, ctx) }, func() {}, nil
	}
}

// clients starts a server process in a role, connects clients to it, and returns a system that sends requests from them.
func (c Config) clients(ctx context.Context, role Role, dir, durability string, connect connector) (*system, error) {
	server, err := c.spawn(ctx, "server", role, dir, durability)
	if err != nil {
		return nil, err
	}
	transport := newMCPTransport()
	idle := make(chan func(context.Context) error, mcpClients)
	var ends []func()
	stop := func() {
		for _, end := range ends {
			end()
		}
		transport.CloseIdleConnections()
		server.stop()
	}
	for i := range mcpClients {
		request, end, err := connect(ctx, transport, server.announced, clientToken(i))
		if err != nil {
			stop()
			return nil, fault.Wrap(fault.Unavailable, err, "a client of the benchmark cannot connect")
		}
		ends = append(ends, end)
		idle <- request
	}
	once := func(ctx context.Context, _ workload) (int, error) {
		request := <-idle
		defer func() { idle <- request }()
		return 1, request(ctx)
	}
	return &system{once: once, children: []*child{server}, stop: stop}, nil
}

// clientToken returns the token of a client.
func clientToken(i int) string { return "client-" + strconv.Itoa(i%mcpClients) }

// measureGets measures tasks/get of finished tasks.
func measureGets(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	start := func(ctx context.Context, c Config, dir, durability string) (*system, error) {
		return c.clients(ctx, RoleFace, dir, durability, lean(false, (*mcpClient).get))
	}
	w := workload{id: "mcp-get", inFlight: mcpClients}
	samples, err := repeat(l.Config, func() (sample, error) { return l.sample(ctx, w, durability, start) })
	if err != nil {
		return nil, err
	}
	row := func(id, name string, of func(sample) float64) Row {
		r := figure(id, "MCP tasks/get, 16 sessions, "+name, "ms", each(samples, of))
		r.CPUMicros = cpuOfAll(samples)
		return r
	}
	return []Row{
		row("mcp-get-p50", "median", func(s sample) float64 { return s.p50 }),
		row("mcp-get-p99", "99 of 100", func(s sample) float64 { return s.p99 }),
	}, nil
}

// measureSessions measures the memory of idle sessions with an open stream. The memory hardly varies, so it is measured once.
func measureSessions(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	n := l.scaled(1000)
	orch, err := l.sessions(ctx, RoleFace, durability, n)
	if err != nil {
		return nil, err
	}
	bare, err := l.sessions(ctx, RoleBareFace, durability, n)
	if err != nil {
		return nil, err
	}
	row := func(id, name string, of func(sessionMemory) float64) Row {
		r := figure(id, strconv.Itoa(n)+" idle MCP sessions with a stream each, "+name, "KiB", []float64{of(orch)})
		r.Bare = of(bare)
		r.Ratio = r.Bare / r.Value
		return r
	}
	return []Row{
		row("mcp-session", "memory of each", func(m sessionMemory) float64 { return m.open }),
		row("mcp-session-closed", "what stays of each half a minute after they ended", func(m sessionMemory) float64 { return m.closed }),
	}, nil
}

// sessionMemory is the memory of an open session, and the memory that is still in use after it is closed, in KiB.
type sessionMemory struct{ open, closed float64 }

// sessions opens n sessions of a server, closes them, and measures the memory of the server meanwhile.
func (c Config) sessions(ctx context.Context, role Role, durability string, n int) (m sessionMemory, err error) {
	dir, remove, err := c.fresh("sessions")
	if err != nil {
		return m, err
	}
	defer remove()
	server, err := c.spawn(ctx, "server", role, dir, durability)
	if err != nil {
		return m, err
	}
	defer server.stop()
	transport := newMCPTransport()
	defer transport.CloseIdleConnections()
	first, err := newMCPClient(ctx, transport, server.announced, clientToken(0), false)
	if err != nil {
		return m, err
	}
	if err = first.call(ctx); err != nil {
		return m, err
	}
	if err = pause.For(ctx, settleTime); err != nil {
		return m, err
	}
	before, err := memoryOf(server.pid())
	if err != nil {
		return m, err
	}
	end, err := openStreams(ctx, transport, server.announced, n)
	defer func() { end(context.WithoutCancel(ctx)) }()
	if err != nil {
		return m, err
	}
	each := func(now memory) float64 { return (now.anonymous - before.anonymous) * 1024 / float64(n) }
	if err = pause.For(ctx, settleTime); err != nil {
		return m, err
	}
	now, err := memoryOf(server.pid())
	if err != nil {
		return m, err
	}
	m.open = each(now)
	end(ctx)
	if err = pause.For(ctx, idleTime); err != nil {
		return m, err
	}
	now, err = memoryOf(server.pid())
	m.closed = each(now)
	return m, err
}

// openStreams opens n sessions with a stream each, and returns a function to end them.
func openStreams(ctx context.Context, transport http.RoundTripper, url string, n int) (end func(context.Context), err error) {
	ctx, stop := context.WithCancel(ctx)
	var clients []*mcpClient
	end = func(ctx context.Context) {
		for _, c := range clients {
			_ = c.close(ctx) // the server may have stopped
		}
		clients = nil
		stop()
	}
	for i := range n {
		c, err := newMCPClient(ctx, transport, url, clientToken(i), false)
		if err == nil {
			err = c.listen(ctx)
		}
		if err != nil {
			return end, fault.Wrap(fault.Unavailable, err, "a session of the benchmark cannot be opened")
		}
		clients = append(clients, c)
	}
	return end, nil
}
