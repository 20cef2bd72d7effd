package load_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/goroutines"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// The environment of the processes that the tests start from their own binary.
const (
	envRole = "LOAD_ROLE"
	envDir  = "LOAD_DIR"

	roleNode   = "node"
	roleWorker = "worker"
	roleFace   = "face"

	// workerSlots is the number of calls that a worker runs at the same time.
	workerSlots = 64
	// startWithin bounds how long a process may take to answer.
	startWithin = 60 * time.Second
)

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, "the "+role+" ends:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play is the main program of a node or a worker.
func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if role == roleBurn {
		return burn(ctx)
	}
	cfg := config(os.Getenv(envDir), os.Stderr)
	cfg.Storage.Durability = os.Getenv(envDurability)
	if role == roleWorker {
		cfg.Worker.Concurrency = workerSlots
		go answerStats()
		return errors.Join(printLine("ready"), node.RunWorker(ctx, cfg))
	}
	if role == roleFace {
		cfg.Faces.HTTP, cfg.Faces.Tokens, cfg.Worker.Concurrency, cfg.Extra = "127.0.0.1:0", eachToken{}, 16, []tools.Tool{large()}
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	go answerStats()
	err = printLine(cmp.Or(n.FaceURL(), "ready"))
	<-ctx.Done()
	return errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
}

func config(dir string, logs io.Writer) node.Config {
	return node.Config{
		DataDir: filepath.Join(dir, "data"), Root: dir, Worker: node.Worker{Concurrency: -1}, Limits: node.Limits{Lease: lease},
		Logger: slog.New(slog.NewTextHandler(logs, nil)), Extra: toolbox(dir),
	}
}

// printLine prints a line for the test.
func printLine(line string) error {
	_, err := os.Stdout.WriteString(line + "\n")
	return err
}

// The lines that answerStats knows.
const (
	askGoroutines = "goroutines"
	askHeap       = "heap"
)

// answerStats answers each line of standard input: with the number of goroutines, without idle ones of pools, or with
// the heap in use in MiB after releasing unused memory.
func answerStats() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		number := goroutines.Held()
		if in.Text() == askHeap {
			debug.FreeOSMemory()
			number = heap() >> 20
		}
		if printLine(strconv.Itoa(number)) != nil {
			return
		}
	}
}

// process is a node or a worker.
type process struct {
	t     *testing.T
	role  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	done  chan struct{}
	// ready is its first line: where a node serves HTTP.
	ready string
}

// spawn starts a process of the test's own binary, which ends with the test.
func spawn(t *testing.T, role, dir string, env ...string) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), envRole+"="+role, envDir+"="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	logs, err := os.OpenFile(filepath.Join(dir, role+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer logs.Close()
	cmd.Stderr = logs
	p := &process{t: t, role: role, cmd: cmd, lines: make(chan string, 8), done: make(chan struct{})}
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	runtime.LockOSThread() // the death signal follows the thread that starts the process
	require.NoError(t, cmd.Start())
	go p.follow(out)
	t.Cleanup(p.kill)
	p.ready = p.line()
	return p
}

func (p *process) follow(out io.Reader) {
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		select {
		case p.lines <- scan.Text():
		default: // a tool writes to the standard output of its worker
		}
	}
	_ = p.cmd.Wait() // its state tells
	close(p.done)
}

func (p *process) line() string {
	p.t.Helper()
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case line := <-p.lines:
		return line
	case <-p.done:
		p.t.Fatalf("the %s has ended by itself: %s", p.role, p.cmd.ProcessState)
	case <-timer.C:
		p.t.Fatalf("the %s does not answer", p.role)
	}
	return ""
}

// kill ends the process and everything in its group.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// terminate stops the process and returns how long that took.
func (p *process) terminate(within time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.t.Errorf("the %s did not end within %s", p.role, within)
	}
	return time.Since(began)
}

// usage is the resource usage of a process.
type usage struct{ goroutines, files int }

func (p *process) usage() usage {
	p.t.Helper()
	files, err := os.ReadDir(p.proc("fd"))
	require.NoError(p.t, err)
	return usage{p.ask(askGoroutines), len(files)}
}

// ask returns the answer to a line.
func (p *process) ask(line string) int {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
	number, err := strconv.Atoi(p.line())
	require.NoError(p.t, err)
	return number
}

func (p *process) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), file)
}

// memory returns the resident memory of the process in MiB: currently, without mapped files, and at its peak.
func (p *process) memory() (now, peak int) {
	p.t.Helper()
	text, err := os.ReadFile(p.proc("status"))
	require.NoError(p.t, err)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "RssAnon":
			now = kib >> 10
		case "VmHWM":
			peak = kib >> 10
		}
	}
	return now, peak
}

// dial connects to the node of a test.
func dial(t *testing.T, dir string) api.API {
	t.Helper()
	remote, err := node.Dial(t.Context(), config(dir, io.Discard))
	require.NoError(t, err)
	t.Cleanup(func() { _ = remote.Close() })
	return remote
}

// dialAs connects with a token of another identity than the operator.
func dialAs(t *testing.T, dir, name string) api.API {
	t.Helper()
	remote, err := node.Dial(t.Context(), config(dir, io.Discard))
	require.NoError(t, err)
	t.Cleanup(func() { _ = remote.Close() })
	_, secret, err := bus.IssueToken(t.Context(), remote, bus.NewToken{Name: name, Role: bus.RoleOperator})
	require.NoError(t, err)
	cfg := config(dir, io.Discard)
	cfg.Token = secret
	own, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = own.Close() })
	return own
}

// passing reports whether a request may succeed when it is repeated.
func passing(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout) || fault.Has(err, fault.RateLimited)
}
