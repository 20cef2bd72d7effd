package bench

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// The names of the MCP servers. gatewayHTTP is one process that both clients call over HTTP. gatewayPipe is one process for
// each client, over a pipe.
const (
	gatewayPipe = "bench-pipe"
	gatewayHTTP = "bench-http"
)

// gateways measures calls of a no-op tool through the gateway, including the check of their arguments. It alternates these calls
// with direct calls by an SDK client in the same process to the same server program, and reports the ratio. The last row is a
// whole task that makes one such call and is written to the log; it has no comparison.
func gateways(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	b, done, err := newGatewayBench(ctx, l.Config)
	if err != nil {
		return nil, err
	}
	defer done()
	var rows []Row
	for _, way := range []struct{ id, name, server string }{
		{"gateway-stdio", "a call through the gateway over stdio, relative to a direct call, median", gatewayPipe},
		{"gateway-http", "a call through the gateway over HTTP, relative to a direct call, median", gatewayHTTP},
	} {
		var ratios, through []float64
		for range l.Runs {
			with, without, err := b.measure(ctx, way.server, l.scaled(5_000))
			if err != nil {
				return rows, err
			}
			ratios, through = append(ratios, with/without), append(through, with/1000)
		}
		row := figure(way.id, way.name, "×", ratios)
		row.P50Millis = median(through)
		rows = append(rows, row)
	}
	row, err := b.tasks(ctx, l, durability)
	return append(rows, row), err
}

// gatewayBench is a gateway without a node, and a client for comparison.
type gatewayBench struct {
	home      string
	catalogue *tools.Catalogue
	gateway   *gateway.Gateway
	direct    map[string]*mcp.ClientSession
	ends      []func()
}

func newGatewayBench(ctx context.Context, c Config) (*gatewayBench, func(), error) {
	dir, remove, err := c.fresh("gateway")
	if err != nil {
		return nil, nil, err
	}
	b := &gatewayBench{home: dir, direct: map[string]*mcp.ClientSession{}, ends: []func(){remove}}
	if err := b.start(ctx, c); err != nil {
		b.close()
		return nil, nil, err
	}
	return b, b.close, nil
}

func (b *gatewayBench) close() {
	for _, end := range slices.Backward(b.ends) {
		end()
	}
}

// start starts the servers and connects both clients to them.
func (b *gatewayBench) start(ctx context.Context, c Config) error {
	web, err := c.spawn(ctx, "server", RoleBareFace, b.home, "relaxed")
	if err != nil {
		return err
	}
	b.ends = append(b.ends, web.stop)
	url := web.announced // the first line of output
	pipe := []string{"bench", "--role", string(RoleBarePipe), "--dir", b.home}
	for server, d := range map[string]map[string]any{
		gatewayPipe: {"transport": "stdio", "command": c.Program, "args": pipe},
		gatewayHTTP: {"transport": "http", "baseURL": url},
	} {
		if err := b.define(server, d); err != nil {
			return err
		}
	}
	for server, over := range map[string]mcp.Transport{
		gatewayPipe: &mcp.CommandTransport{Command: exec.CommandContext(ctx, c.Program, pipe...)},
		gatewayHTTP: &mcp.StreamableClientTransport{Endpoint: url},
	} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, over, nil)
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the client of the benchmark cannot connect")
		}
		b.direct[server] = session
		b.ends = append(b.ends, func() { _ = session.Close() }) // the server may have stopped
	}
	return b.connect(ctx)
}

func (b *gatewayBench) define(server string, d map[string]any) error {
	d["schemaVersion"], d["name"], d["capabilities"] = "1.0.0", server, []string{"tools"}
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings only
	}
	dir := filepath.Join(b.home, ".orch", "mcp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.ExecFailed, err, "a definition of the benchmark cannot be written")
	}
	if err := os.WriteFile(filepath.Join(dir, server+".json"), raw, 0o600); err != nil {
		return fault.Wrap(fault.ExecFailed, err, "a definition of the benchmark cannot be written")
	}
	return nil
}

// connect starts the gateway and waits until it has connected to the servers.
func (b *gatewayBench) connect(ctx context.Context) error {
	var err error
	if b.catalogue, err = tools.New(); err != nil {
		return err
	}
	b.gateway, err = gateway.New(gateway.Config{
		Servers:   registry.Config{Dir: b.home, Home: b.home, Still: true},
		Catalogue: b.catalogue, Connect: gateway.OnCall,
	})
	if err != nil {
		return err
	}
	b.ends = append(b.ends, func() { _ = b.gateway.Close(context.WithoutCancel(ctx)) })
	return b.gateway.Start(ctx)
}

// measure makes n calls through the gateway and n direct calls, alternately, and returns the medians in microseconds.
func (b *gatewayBench) measure(ctx context.Context, server string, n int) (through, direct float64, err error) {
	tool, ok := b.catalogue.Get(server + "." + noopName)
	if !ok {
		return 0, 0, fault.New(fault.Unavailable, "the server %s of the benchmark is not there", server)
	}
	env := &tools.Env{
		Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1, State: statemachine.InProgress, Log: slog.New(slog.DiscardHandler),
		Now: time.Now, Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {},
	}
	with, without := make([]float64, n), make([]float64, n)
	for i := range n {
		began := time.Now()
		args, err := tool.Check(json.RawMessage(`{}`))
		if err == nil {
			_, err = tool.Call(ctx, env, args)
		}
		between := time.Now()
		if err != nil {
			return 0, 0, err
		}
		result, err := b.direct[server].CallTool(ctx, &mcp.CallToolParams{Name: noopName, Arguments: struct{}{}})
		if err != nil || result.IsError {
			return 0, 0, fault.Wrap(fault.Internal, err, "a call of the benchmark failed")
		}
		with[i], without[i] = micros(between.Sub(began)), micros(time.Since(between))
	}
	return median(with), median(without), nil
}

// tasks measures tasks that make one call over stdio, from submission to result. The tasks run one after another.
func (b *gatewayBench) tasks(ctx context.Context, l *benchRun, durability string) (Row, error) {
	dir, remove, err := l.fresh("gateway-task")
	if err != nil {
		return Row{}, err
	}
	defer remove()
	cfg := nodeConfig(dir, durability)
	cfg.Faces.Servers = node.Servers{Home: b.home, Still: true}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return Row{}, err
	}
	defer func() { _ = n.Stop(context.WithoutCancel(ctx)) }()
	var runs []float64
	for range l.Runs {
		times := make([]float64, l.scaled(500))
		for i := range times {
			began := time.Now()
			if err := oneTask(ctx, n.API()); err != nil {
				return Row{}, err
			}
			times[i] = micros(time.Since(began)) / 1000
		}
		runs = append(runs, median(times))
	}
	return figure("gateway-task", "a task of one call through the gateway over stdio, median", "ms", runs), nil
}

func oneTask(ctx context.Context, owner api.API) error {
	plan := json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"` + gatewayPipe + `.` + noopName + `"}]}`)
	task, err := owner.Submit(ctx, api.SubmitRequest{Plan: plan, Actor: "user:bench"})
	if err != nil {
		return err
	}
	r, err := owner.Result(ctx, api.ResultRequest{ID: task.ID, Wait: time.Minute})
	if err == nil && r.State != statemachine.Done {
		return fault.New(fault.Internal, "a task of the benchmark is %s: %s", r.State, r.Reason)
	}
	return err
}

// barePipe runs the process that serves bareServerOfMCP over standard input and output.
func barePipe(ctx context.Context, in io.Reader, out io.Writer) error {
	transport := &mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopWriteCloser{out}}
	if err := bareServerOfMCP().Run(ctx, transport); err != nil && ctx.Err() == nil {
		return fault.Wrap(fault.Unavailable, err, "the bare server of MCP has ended")
	}
	return nil
}

// nopWriteCloser is an io.WriteCloser with a Close that does nothing.
type nopWriteCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopWriteCloser) Close() error { return nil }
