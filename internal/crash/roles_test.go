package crash_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/crash"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// The environment of the processes that the test starts from its own binary.
const (
	envRole = "CRASH_ROLE"
	envDir  = "CRASH_DIR"
	// envCall is what a child process of a tool writes into the ledger.
	envCall = "CRASH_CALL"

	roleNode   = "node"
	roleWorker = "worker"
	roleChild  = "child"
)

const (
	// lease is short, so that lost workers are noticed within a round.
	lease = time.Second
	// archiveAfter lets tasks move to the archive while processes die.
	archiveAfter = 5 * time.Second
	// workerSlots is the number of calls that a worker runs at the same time.
	workerSlots = 32
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

// play is the main program of a child process.
func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch role {
	case roleNode:
		return playNode(ctx)
	case roleWorker:
		return playWorker(ctx)
	case roleChild:
		return playChild(ctx)
	default:
		return fault.New(fault.ValidationError, "there is no role %q", role)
	}
}

func config(dir string, logs io.Writer) node.Config {
	return node.Config{
		DataDir: filepath.Join(dir, "data"), Root: dir, Lease: lease, ArchiveAfter: archiveAfter,
		Logger: slog.New(slog.NewTextHandler(logs, nil)), Extra: effects(dir),
	}
}

// tell writes a line to the test.
func tell(line string) error {
	_, err := os.Stdout.WriteString(line + "\n")
	return err
}

func playNode(ctx context.Context) error {
	cfg := config(os.Getenv(envDir), os.Stderr)
	cfg.Concurrency = -1
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err := tell("ready"); err != nil {
		return errors.Join(err, n.Stop(ctx))
	}
	go answerStats()
	<-ctx.Done()
	return n.Stop(context.WithoutCancel(ctx))
}

// playWorker runs a worker; one that finds no node tries again.
func playWorker(ctx context.Context) error {
	cfg := config(os.Getenv(envDir), os.Stderr)
	cfg.Concurrency = workerSlots
	if err := tell("ready"); err != nil {
		return err
	}
	go answerStats()
	for {
		err := node.RunWorker(ctx, cfg)
		if !fault.Has(err, fault.Unavailable) || !pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

// answerStats answers each line of the standard input with the number of goroutines.
func answerStats() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && tell(strconv.Itoa(runtime.NumGoroutine())) == nil {
	}
}

// playChild is the child process of a tool: it takes long enough to be alive when its worker dies.
func playChild(ctx context.Context) error {
	e := crash.Effect{Tool: crash.ToolChild}
	if _, err := fmt.Sscan(os.Getenv(envCall), &e.Task, &e.Step, &e.Attempt, &e.Key, &e.PID); err != nil {
		return err
	}
	return perform(ctx, os.Getenv(envDir), e, 50*time.Millisecond, 150*time.Millisecond)
}

// perform writes the begin and, a random while later, the end of an effect.
func perform(ctx context.Context, dir string, e crash.Effect, shortest, longest time.Duration) (err error) {
	ledger, err := crash.OpenLedger(ledgerPath(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	e.Phase, e.At = crash.Begin, time.Now()
	if err := ledger.Append(e); err != nil {
		return err
	}
	if !pause(ctx, shortest+rand.N(longest-shortest)) {
		return ctx.Err()
	}
	e.Phase, e.At = crash.End, time.Now()
	return ledger.Append(e)
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func ledgerPath(dir string) string { return filepath.Join(dir, "ledger") }

type nothing struct{}

type effectOut struct {
	Attempt int `json:"attempt"`
	PID     int `json:"pid"`
}

// effects are the tools of the test. All that they do is in the ledger.
func effects(dir string) []tools.Tool {
	return []tools.Tool{
		effect(crash.ToolRead, tools.Read, dir, inProcess),
		effect(crash.ToolIdem, tools.Idempotent, dir, inProcess),
		effect(crash.ToolWrite, tools.Write, dir, inProcess),
		effect(crash.ToolChild, tools.Idempotent, dir, inChild),
		effect(crash.ToolSlow, tools.Idempotent, dir, slowly),
	}
}

type doer func(ctx context.Context, env *tools.Env, dir string, e crash.Effect) error

func effect(name string, kind tools.Effect, dir string, do doer) tools.Tool {
	spec := tools.Spec{
		Name: name, Purpose: "Write a line into the ledger", Effect: kind, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}
	return tools.Define(spec, func(ctx context.Context, env *tools.Env, _ nothing) (effectOut, error) {
		e := crash.Effect{Tool: name, Task: env.Task, Step: env.Step, Attempt: env.Attempt, Key: env.Key, PID: os.Getpid()}
		return effectOut{Attempt: e.Attempt, PID: e.PID}, do(ctx, env, dir, e)
	})
}

func inProcess(ctx context.Context, _ *tools.Env, dir string, e crash.Effect) error {
	return perform(ctx, dir, e, time.Millisecond, 30*time.Millisecond)
}

// slowly takes so long that a stopped worker that comes back finds the next attempt at work: only then
// a result of the older attempt has something to spoil.
func slowly(ctx context.Context, _ *tools.Env, dir string, e crash.Effect) error {
	return perform(ctx, dir, e, lease*3/4, lease*7/4)
}

func inChild(ctx context.Context, env *tools.Env, dir string, e crash.Effect) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	result, err := env.Exec.Run(ctx, proc.Command{Name: program, Dir: dir, Env: map[string]string{
		envRole: roleChild, envDir: dir, envCall: callText(e.Task, e.Step, e.Attempt, e.Key, e.PID),
	}})
	if err == nil && result.ExitCode != 0 {
		return fault.New(fault.ExecFailed, "the child process ended with %d: %s", result.ExitCode, result.Stderr)
	}
	return err
}

func callText(task events.TaskID, step string, attempt int, key string, pid int) string {
	return fmt.Sprint(string(task), " ", step, " ", attempt, " ", key, " ", pid)
}
