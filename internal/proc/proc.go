// Package proc starts child processes that cannot outlive their call.
//
// A child has its own session and process group, and no terminal. Its standard input is empty or set by its command. It
// has a fixed search path, and an environment from an allow-list. When its time is over, or its context ends, the whole
// group is terminated: SIGTERM, a grace period, SIGKILL. When the node itself is killed, a helper process, the reaper,
// kills the groups of the running calls. When the node is stopped, the reaper kills groups that are past their
// deadline. A process that leaves the group (setsid) survives, but in its sandbox.
//
// On Linux the kernel confines every child before its first instruction: a child may access only the files that its
// Sandbox lists, has no network unless its Sandbox allows it, and has no privileges of root. Descendants inherit these
// restrictions.
package proc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
)

// DefaultLimit bounds each output stream in a Result: 1 MiB.
const DefaultLimit = 1 << 20

// Config configures a Runner. The zero value works.
type Config struct {
	// Path are the absolute directories in which programs are looked up, in order. It becomes the PATH of every child.
	// Default: the Go tool chain's folder and the system's usual ones.
	Path []string
	// Inherit names the variables that children inherit. Default: HOME, TMPDIR, LANG, TZ, USER and similar variables,
	// and those that the Go tool chain needs. A name that begins with ORCH_ or looks like the name of a secret is an
	// error.
	Inherit []string
	// Environ is the environment to inherit from, as "NAME=value". Default: the environment of the node.
	Environ []string
	// Grace is the time between SIGTERM and SIGKILL, and how long to wait for output streams that background processes
	// hold open after the command has ended. Default: 2 s.
	Grace time.Duration
	// Sandbox is Required, Enforce (default), BestEffort or Off.
	Sandbox Mode
	// Read are absolute paths of files and folders, such as tool chains, that every child may read and execute in
	// addition to the system's own.
	Read []string
	// Write are absolute paths of shared folders, such as caches: every child that may write anywhere may write there.
	Write []string
	// Hidden are absolute paths of files and folders of the node that no child may access, whatever its command allows.
	// Files below HOME that are known to contain keys are always hidden.
	Hidden []string
	// Limits bounds the resources of each child.
	Limits Limits
	// Logger receives one message if the reaper fails, and one if BestEffort cannot confine children fully. Default:
	// nothing is logged.
	Logger *slog.Logger
}

// Runner starts child processes. It is safe for concurrent use. Close it when it is no longer needed.
type Runner struct {
	path   []string
	env    []string
	grace  time.Duration
	reaper *reaper
	log    *slog.Logger

	mode   Mode
	limits Limits
	// support returns the confinement that the machine supports.
	support func() Support
	// system returns the paths that every child may read. shared are paths that a child may write if it may write
	// anywhere. hidden are paths that no child may access.
	system         func() []string
	shared, hidden []string
	// missing ensures that missing parts of the sandbox are logged only once.
	missing *sync.Once
	// bounds restricts each command (see Within); nil means no restriction.
	bounds func(*Command) error
}

// New returns a Runner, or VALIDATION_ERROR for a config that would leak or cannot work.
func New(cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Runner{path: cfg.Path, env: baseEnv(cfg), grace: cfg.Grace, missing: &sync.Once{}, reaper: &reaper{log: cfg.Logger, mark: newMark()}, log: cfg.Logger}
	r.support = sync.OnceValue(Probe)
	r.mode, r.limits, r.shared, r.hidden = cfg.Sandbox, cfg.Limits.withDefaults(), cfg.Write, hiddenFiles(cfg)
	readable := slices.Concat(systemFiles(), cfg.Path, cfg.Read, moduleCaches(r.env))
	r.system = sync.OnceValue(func() []string { return realSystem(readable) })
	return r, nil
}

// Close stops the reaper, which kills the process groups of running calls. A later Run works without a reaper. Close
// returns an error if another process killed the reaper.
func (r *Runner) Close() error {
	if err := r.reaper.close(); err != nil {
		return fault.Wrap(fault.Internal, err, "the reaper of child processes failed")
	}
	return nil
}

// Command is one child process.
type Command struct {
	// Name is an absolute path, or a bare name that is looked up in the fixed search path.
	Name string
	Args []string
	// Dir is the absolute working directory.
	Dir string
	// Env is added to the inherited environment and takes precedence.
	Env map[string]string
	// Secrets are redacted in the Result. A variable of Env may have a name that looks like that of a secret only if
	// its value is one of the Secrets.
	Secrets *secret.Set
	// Stdin is the standard input; empty for none.
	Stdin string
	// Sandbox lists what the process may access; with the zero value it may write nowhere.
	Sandbox Sandbox
	// Timeout is the time limit; with 0 only the deadline of the context applies.
	Timeout time.Duration
	// Limit is how many bytes of each stream the Result contains, from the beginning; 0 means DefaultLimit. Later
	// output is read and dropped.
	Limit int64
	// Stdout, if set, receives the standard output instead of the Result.
	Stdout io.Writer
	// Output, if set, is called with the output of both streams as it arrives, in whole lines unless a line is longer
	// than 16 KiB. It must not retain p. Calls do not overlap.
	Output func(p []byte)
	// OnOutput is called with the number of bytes that a stream ("stdout", "stderr") has produced so far. Calls do not
	// overlap.
	OnOutput func(stream string, n int64)
}

// Result is the outcome of a process.
type Result struct {
	// Stdout and Stderr are valid UTF-8: other bytes are replaced by U+FFFD.
	Stdout, Stderr string
	// ExitCode is the exit status; for a process killed by signal n it is 128+n, as in a shell.
	ExitCode int
	// Truncated is true when a stream was longer than the limit.
	Truncated bool
	Duration  time.Duration
	// TimedOut is true when the process was terminated at the timeout or the deadline of the context.
	TimedOut bool
}

// Run starts c and waits for its end. A nonzero exit status is not an error. Errors: EXEC_FAILED when it cannot be
// started, TIMEOUT and CANCELLED when it was terminated; with these two Run also returns the Result so far. After the
// process has ended, Run kills the remaining processes of its group before it returns.
func (r *Runner) Run(ctx context.Context, c Command) (Result, error) {
	if r.bounds != nil {
		if err := r.bounds(&c); err != nil {
			return Result{}, err
		}
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	sink := newSink(c)
	cmd, err := r.command(ctx, c, sink)
	if err != nil {
		return Result{}, err
	}
	sandbox, err := r.confinement(c)
	if err != nil {
		return Result{}, err
	}
	defer sandbox.close()
	r.reaper.start()
	begin := time.Now()
	resume, end, err := r.start(cmd, sandbox)
	if err != nil {
		return Result{}, startError(ctx, c.Name, err)
	}
	defer end()
	r.applyLimits(cmd.Process.Pid)
	r.reaper.add(cmd.Process.Pid, r.killTime(ctx))
	defer r.reaper.drop(cmd.Process.Pid)
	if overdue(ctx) { // the node was suspended in the meantime
		<-ctx.Done()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	resume()
	waitErr := cmd.Wait()
	if overdue(ctx) { // the reaper may have been faster than the timer of the context
		<-ctx.Done()
	}
	// The number of a group is not reused while the group has members, so this kills the remaining members or nobody.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	res := sink.result()
	res.Duration = time.Since(begin)
	res.ExitCode = exitCode(cmd)
	return res, r.outcome(ctx, c, waitErr, &res)
}

// ErrAtOnce is a cause for cancelling a context. The processes of that context are then killed without a grace period.
var ErrAtOnce = errors.New("its processes are killed at once")

// terminationSignal returns the signal for a process after its context has ended.
func terminationSignal(ctx context.Context) syscall.Signal {
	if errors.Is(context.Cause(ctx), ErrAtOnce) {
		return syscall.SIGKILL
	}
	return syscall.SIGTERM
}

// overdue reports whether a context has ended or is past its deadline. It compares the time because the context's timer
// may not have fired yet.
func overdue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// killTime returns the deadline of a process plus the grace period; zero without a deadline.
func (r *Runner) killTime(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(r.grace)
}

// applyLimits applies the limits of r to a child that was just started.
func (r *Runner) applyLimits(pid int) {
	preferOOMKill(pid)
	if r.mode == Off {
		return
	}
	if err := r.limits.apply(pid); err != nil {
		r.logMissing("limits", err)
	}
}

// start starts cmd. In a sandbox the process is stopped until resume is called. The caller must call end after the
// process has ended.
func (r *Runner) start(cmd *exec.Cmd, sandbox *confinement) (resume, end func(), err error) {
	if sandbox != nil {
		cmd.Env = append(cmd.Env, r.reaper.mark)
		resume, err = sandbox.start(cmd)
		return resume, func() {}, err
	}
	// The death signal of the child is tied to the thread that starts it, so the thread stays.
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		return nil, nil, err
	}
	return func() {}, runtime.UnlockOSThread, nil
}

// command returns the exec.Cmd for c, with its output connected to sink.
func (r *Runner) command(ctx context.Context, c Command, sink *sink) (*exec.Cmd, error) {
	program, err := r.LookPath(c.Name)
	if err != nil {
		return nil, err
	}
	env, err := r.environ(c.Env, c.Secrets)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, env
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	cmd.Stdout, cmd.Stderr = &sink.out, &sink.err
	cmd.SysProcAttr = sessionAttr()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, terminationSignal(ctx)) }
	cmd.WaitDelay = r.grace
	return cmd, nil
}

// LookPath returns the path of a program in the fixed search path, or EXEC_FAILED.
func (r *Runner) LookPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if name == "" || filepath.Base(name) != name {
		return "", fault.New(fault.ExecFailed, "%q is neither a program name nor an absolute path", name)
	}
	for _, dir := range r.path {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fault.New(fault.ExecFailed, "the program %q is not installed", name).
		WithHint("install it into one of the folders of the search path: %v; the setting program_path adds others", r.path)
}

// startError returns the coded error for a process that could not be started.
func startError(ctx context.Context, name string, err error) error {
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		return coded
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.CodeOf(ctx.Err()), err, "the call ended before "+name+" could start")
	}
	return fault.Wrap(fault.ExecFailed, err, "the program "+name+" could not be started")
}

// outcome returns the error of Run for the error of exec.Cmd.Wait, and sets res.TimedOut.
func (r *Runner) outcome(ctx context.Context, c Command, err error, res *Result) error {
	var exit *exec.ExitError
	switch {
	case err == nil || errors.As(err, &exit) && ctx.Err() == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.TimedOut = true
		return fault.Wrap(fault.Timeout, err, c.Name+" was ended after "+res.Duration.Round(time.Millisecond).String())
	case ctx.Err() != nil:
		return fault.Wrap(fault.Cancelled, err, c.Name+" was ended because the call was cancelled")
	default:
		return fault.Wrap(fault.ExecFailed, err, "the output of "+c.Name+" could not be read")
	}
}

// exitCode returns the exit status, or 128+n for a process killed by signal n.
func exitCode(cmd *exec.Cmd) int {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
