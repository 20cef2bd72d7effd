package benchmark

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
)

// Role is what a child process of the benchmark does; the program runs it by RunRole.
type Role string

// The roles.
const (
	RoleNode       Role = "node"
	RoleWorker     Role = "worker"
	RoleBareServer Role = "bare-server"
	RoleBareWorker Role = "bare-worker"
)

// RunRole runs a child process of the benchmark until its standard input ends. It writes one line
// when it is ready.
func RunRole(ctx context.Context, role Role, dir, durability string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in) // the end of the parent ends this process
		stop()
	}()
	ready := func(line string) { _, _ = io.WriteString(out, line+"\n") }
	cfg := node.Config{DataDir: filepath.Join(dir, "data"), Root: dir, Durability: durability, Extra: []tools.Tool{Tool()}}
	switch role {
	case RoleNode:
		cfg.Concurrency = -1
		n, err := node.Start(ctx, cfg)
		if err != nil {
			return err
		}
		ready(n.Address())
		<-ctx.Done()
		return n.Stop(context.WithoutCancel(ctx))
	case RoleWorker:
		cfg.Concurrency = 256
		ready("worker")
		return node.RunWorker(ctx, cfg)
	case RoleBareServer:
		return bareServer(ctx, cfg, ready)
	case RoleBareWorker:
		return bareWorker(ctx, cfg, ready)
	default:
		return fault.New(fault.ValidationError, "there is no role %q", role)
	}
}

// processes measures a node, a worker and a driver as three processes over loopback TCP.
func processes(ctx context.Context, cfg Config, durability string) ([]Row, error) {
	start := func(dir string) (orchestrator.API, func(), error) {
		stop, err := cfg.spawn(ctx, dir, durability, RoleNode, RoleWorker)
		if err != nil {
			return nil, nil, err
		}
		remote, err := node.Dial(ctx, node.Config{DataDir: filepath.Join(dir, "data")})
		if err != nil {
			stop()
			return nil, nil, err
		}
		return remote, func() { _ = remote.Close(); stop() }, nil
	}
	return measure(ctx, cfg, "three processes", durability, start, bareProcesses)
}

// spawn starts child processes one after the other, each when the one before is ready.
func (c Config) spawn(ctx context.Context, dir, durability string, roles ...Role) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, end := range slices.Backward(stops) {
			end()
		}
	}
	for _, role := range roles {
		end, err := c.child(ctx, dir, durability, role)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, end)
	}
	return stop, nil
}

func (c Config) child(ctx context.Context, dir, durability string, role Role) (func(), error) {
	cmd := exec.CommandContext(ctx, c.Program, "bench", "--role", string(role), "--dir", dir, "--durability", durability)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "a process of the benchmark cannot be started")
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "a process of the benchmark cannot be started")
	}
	end := func() {
		_ = in.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) == "" {
		end()
		return nil, fault.New(fault.ExecFailed, "the %s of the benchmark did not start", role)
	}
	return end, nil
}
