package bench

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// Role is the role of a child process of the benchmark; the program runs it with RunRole.
type Role string

// The roles.
const (
	RoleNode       Role = "node"
	RoleWorker     Role = "worker"
	RoleBareServer Role = "bare-server"
	RoleBareWorker Role = "bare-worker"
	// RoleFloor is a node without orchestration.
	RoleFloor Role = "floor"
	// RoleFace is a node with an MCP endpoint, RoleBareFace an SDK server with a no-op tool.
	RoleFace     Role = "face"
	RoleBareFace Role = "bare-face"
	// RoleBarePipe is like RoleBareFace, over standard input and output.
	RoleBarePipe Role = "bare-pipe"
)

// concurrency is the number of concurrent calls of a worker of the benchmark.
const concurrency = 256

// RunRole runs a child process of the benchmark until its standard input ends. It writes one line when it is ready,
// except RoleBarePipe, which starts with MCP immediately.
func RunRole(ctx context.Context, role Role, dir, durability string, in io.Reader, out io.Writer) error {
	if role == RoleBarePipe {
		return barePipe(ctx, in, out)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in) // this process ends when its parent does
		stop()
	}()
	ready := func(line string) { _, _ = io.WriteString(out, line+"\n") }
	cfg := nodeConfig(dir, durability)
	switch role {
	case RoleNode:
		cfg.Worker.Concurrency = -1
		n, err := node.Start(ctx, cfg)
		if err != nil {
			return err
		}
		ready(n.Address())
		<-ctx.Done()
		return n.Stop(context.WithoutCancel(ctx))
	case RoleWorker:
		ready("worker")
		return node.RunWorker(ctx, cfg)
	case RoleFloor:
		return runFloor(ctx, dir, durability, ready)
	case RoleFace:
		return runMCPNode(ctx, cfg, ready)
	case RoleBareFace:
		return runBareMCP(ctx, ready)
	case RoleBareServer:
		return bareServer(ctx, dir, durability, ready)
	case RoleBareWorker:
		return bareWorker(ctx, dir, ready)
	default:
		return fault.New(fault.ValidationError, "there is no role %q", role)
	}
}

// nodeConfig returns the configuration of nodes and workers under test with their data below dir.
func nodeConfig(dir, durability string) node.Config {
	const open = 10_000_000 // nobody executes what is submitted to measure the rate
	return node.Config{
		Limits:  node.Limits{MaxOpen: open, MaxOpenEach: open},
		DataDir: filepath.Join(dir, "data"), Root: dir, Storage: node.Storage{Durability: durability}, Worker: node.Worker{Concurrency: concurrency},
		Extra: []tools.Tool{noop()},
	}
}

const noopName = "BENCH_NOOP"

// noop returns a tool that does nothing. Nodes and workers of the benchmark offer it in addition to the built-in tools.
func noop() tools.Tool {
	type nothing struct{}
	return tools.Define(tools.Spec{
		Name: noopName, Purpose: "Do nothing, for benchmarks", Effect: tools.Read, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}, func(context.Context, *tools.Env, nothing) (nothing, error) { return nothing{}, nil })
}

// child is a process under test.
type child struct {
	name string // server or worker
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
	// announced is the first line of output of the process: for a server, its address or URL.
	announced string
}

// spawn starts a process in a role and waits until it is ready.
func (c Config) spawn(ctx context.Context, name string, role Role, dir, durability string) (*child, error) {
	return c.launch(ctx, name, "bench", "--role", string(role), "--dir", dir, "--durability", durability)
}

// launch starts the program with arguments and waits for its first line of output.
func (c Config) launch(ctx context.Context, name string, args ...string) (*child, error) {
	p := &child{name: name, cmd: exec.CommandContext(ctx, c.Program, args...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "a process of the benchmark cannot be started")
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "a process of the benchmark cannot be started")
	}
	p.out = bufio.NewReader(out)
	line, err := p.out.ReadString('\n')
	if p.announced = strings.TrimSpace(line); err != nil || p.announced == "" {
		p.stop()
		return nil, fault.New(fault.ExecFailed, "the %s of the benchmark did not start", name)
	}
	return p, nil
}

func (p *child) pid() int { return p.cmd.Process.Pid }

// stop stops the process and waits for it.
func (p *child) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // its exit status does not matter
}

// kill kills the process, as in a crash.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
