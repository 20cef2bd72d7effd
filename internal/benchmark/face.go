package benchmark

import (
	"context"
	"net/http"
	"strconv"

	"github.com/orch-dev/orch/fault"
)

// faceClients is the number of clients of the rows of the MCP face, one session each.
const faceClients = 16

// faceRows measures the MCP face over HTTP, calls beside a server of the SDK that has nothing but a tool that does
// nothing.
func faceRows() []measurement {
	return []measurement{
		callRow("mcp-call-stateful", "MCP tools/call, 16 sessions of 2025-11-25", false),
		callRow("mcp-call-stateless", "MCP tools/call, 16 clients of 2026-07-28", true),
		{[]string{"mcp-get-p50", "mcp-get-p99"}, measureGets},
		{[]string{"mcp-session", "mcp-session-closed"}, measureSessions},
	}
}

// callRow measures the calls of one generation of the protocol.
func callRow(id, name string, modern bool) measurement {
	l := layout{
		name: "node and driver",
		orch: func(ctx context.Context, c Config, dir, durability string) (*system, error) {
			return c.callers(ctx, RoleFace, dir, durability, modern)
		},
		bare: func(ctx context.Context, c Config, dir, durability string) (*system, error) {
			return c.callers(ctx, RoleBareFace, dir, durability, modern)
		},
	}
	w := workload{id: id, name: name, inFlight: faceClients}
	return measurement{[]string{id}, func(ctx context.Context, lab *lab, durability string) ([]Row, error) {
		return l.measure(ctx, lab.Config, w, []string{id}, durability)
	}}
}

// callers starts a server in a role and clients that call its tool.
func (c Config) callers(ctx context.Context, role Role, dir, durability string, modern bool) (*system, error) {
	return c.clients(ctx, role, dir, durability, modern, func(ctx context.Context, client *faceClient) error {
		return client.call(ctx)
	})
}

// clients starts a server in a role and a system whose units are requests of one of its clients.
func (c Config) clients(ctx context.Context, role Role, dir, durability string, modern bool, request func(context.Context, *faceClient) error) (*system, error) {
	server, err := c.spawn(ctx, "server", role, dir, durability)
	if err != nil {
		return nil, err
	}
	idle := make(chan *faceClient, faceClients)
	over := newFaceTransport()
	stop := func() { over.CloseIdleConnections(); server.end() }
	for i := range faceClients {
		client, err := newFaceClient(ctx, over, server.line, "client-"+strconv.Itoa(i), modern)
		if err != nil {
			stop()
			return nil, err
		}
		idle <- client
	}
	once := func(ctx context.Context, _ workload) (int, error) {
		client := <-idle
		defer func() { idle <- client }()
		return 1, request(ctx, client)
	}
	return &system{once: once, children: []*child{server}, stop: stop}, nil
}

// measureGets measures tasks/get of finished tasks.
func measureGets(ctx context.Context, l *lab, durability string) ([]Row, error) {
	start := func(ctx context.Context, c Config, dir, durability string) (*system, error) {
		return c.clients(ctx, RoleFace, dir, durability, false, func(ctx context.Context, client *faceClient) error {
			return client.get(ctx)
		})
	}
	w := workload{id: "mcp-get", inFlight: faceClients}
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

// measureSessions measures the memory of sessions that do nothing but hold their stream open. It hardly varies: one
// run.
func measureSessions(ctx context.Context, l *lab, durability string) ([]Row, error) {
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

// sessionMemory is the memory that a session takes, and what stays of it, in KiB.
type sessionMemory struct{ open, closed float64 }

// sessions opens n sessions of a server and ends them.
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
	defer server.end()
	over := newFaceTransport()
	defer over.CloseIdleConnections()
	first, err := newFaceClient(ctx, over, server.line, "client-0", false)
	if err != nil {
		return m, err
	}
	if err = first.call(ctx); err != nil {
		return m, err
	}
	if err = pause(ctx, settled); err != nil {
		return m, err
	}
	before, _, err := memoryOf(server.pid())
	if err != nil {
		return m, err
	}
	end, err := openStreams(ctx, over, server.line, n)
	defer func() { end(context.WithoutCancel(ctx)) }()
	if err != nil {
		return m, err
	}
	each := func(now float64) float64 { return (now - before) * 1024 / float64(n) }
	if err = pause(ctx, settled); err != nil {
		return m, err
	}
	now, _, err := memoryOf(server.pid())
	if err != nil {
		return m, err
	}
	m.open = each(now)
	end(ctx)
	if err = pause(ctx, calm); err != nil {
		return m, err
	}
	now, _, err = memoryOf(server.pid())
	m.closed = each(now)
	return m, err
}

// openStreams opens n sessions with a stream each, and returns how to end them.
func openStreams(ctx context.Context, over http.RoundTripper, url string, n int) (end func(context.Context), err error) {
	ctx, stop := context.WithCancel(ctx)
	var clients []*faceClient
	end = func(ctx context.Context) {
		for _, c := range clients {
			_ = c.leave(ctx) // the server may be gone
		}
		clients = nil
		stop()
	}
	for i := range n {
		c, err := newFaceClient(ctx, over, url, "client-"+strconv.Itoa(i%faceClients), false)
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
