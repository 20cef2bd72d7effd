package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// workerScript is the variable that makes this binary a worker, which runs one command.
const workerScript = "PROC_TEST_WORKER"

// workerLimit is the variable with the time limit of that command.
const workerLimit = "PROC_TEST_LIMIT"

// work is the worker process of these tests. The output of its command is its own.
func work(script string) {
	r, err := proc.New(proc.Config{})
	if err != nil {
		panic(err)
	}
	c := bash(script)
	c.Stdout = os.Stdout
	c.Timeout, _ = time.ParseDuration(os.Getenv(workerLimit))
	_, _ = r.Run(context.Background(), c)
}

// startWorker starts a worker and returns when its command has printed "begun".
func startWorker(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerScript+"="+script)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "begun\n", line)
	return cmd
}

func TestKilledWorkerLeavesNoGrandchildren(t *testing.T) {
	t.Parallel()
	nap := naps("64.1")
	worker := startWorker(t, strings.ReplaceAll("sleep NAP & (sleep NAP; echo x) & (trap '' TERM HUP; sleep NAP) & echo begun; wait", "NAP", nap))
	// The shell prints "begun" before its children have executed their programs.
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+nap) == 3 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, worker.Process.Kill())
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+nap) == 0 }, 30*time.Second, 5*time.Millisecond)
}

// A stopped worker cannot terminate its command at the time limit: the reaper does.
func TestStoppedWorkerKeepsToTheTimeLimit(t *testing.T) {
	t.Setenv(workerLimit, "2s")
	nap := naps("64.3")
	worker := startWorker(t, strings.ReplaceAll("(trap '' TERM HUP; sleep NAP) & echo begun; sleep NAP", "NAP", nap))
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+nap) == 2 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, worker.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+nap) == 0 }, time.Minute, 5*time.Millisecond)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(worker.Process.Pid) + "/stat")
	require.NoError(t, err)
	assert.Contains(t, string(status), ") T ", "the worker still stands still")
}

// reapers returns the helper processes of this process.
func reapers(t *testing.T) map[int]bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	found := map[int]bool{}
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		require.NoError(t, err)
		if fields[1] == strconv.Itoa(os.Getpid()) && bytes.HasPrefix(line, []byte("/bin/sh\x00-c\x00trap")) {
			found[pid] = true
		}
	}
	return found
}

// This test and the next do not run in parallel: they identify their reaper as the new one.
func TestCloseEndsTheReaper(t *testing.T) { //nolint:paralleltest // sees all processes
	before := reapers(t)
	r := newRunner(t, proc.Config{})
	require.NoError(t, r.Close(), "nothing has been started")

	r = newRunner(t, proc.Config{})
	for range 3 {
		_, err := r.Run(t.Context(), bash("true"))
		require.NoError(t, err)
	}
	assert.Len(t, reapers(t), len(before)+1, "all calls share one")
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "a second time is nothing")
	assert.Len(t, reapers(t), len(before))

	res, err := r.Run(t.Context(), bash("echo still"))
	require.NoError(t, err)
	assert.Equal(t, "still\n", res.Stdout)
	assert.Len(t, reapers(t), len(before), "none is started again")
}

func TestLostReaperIsLoggedOnce(t *testing.T) { //nolint:paralleltest // sees all processes
	before := reapers(t)
	var log bytes.Buffer
	r := newRunner(t, proc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := r.Run(t.Context(), bash("true"))
	require.NoError(t, err)
	for pid := range reapers(t) {
		if !before[pid] {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	require.Eventually(t, func() bool { return len(reapers(t)) == len(before) }, time.Minute, time.Millisecond)
	for range 2 {
		res, err := r.Run(t.Context(), bash("echo still"))
		require.NoError(t, err)
		assert.Equal(t, "still\n", res.Stdout)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "reaper_unavailable"), log.String())
	require.Error(t, r.Close())
}

// A child that was being started when its worker died is killed, whether it is stopped or not.
func TestChildThatWasBeingStartedIsFound(t *testing.T) { //nolint:paralleltest // it is slow enough
	nap := naps("64.7")
	for i := range 20 {
		worker := exec.Command(os.Args[0])
		if i%2 == 1 { // as nohup does
			worker = exec.Command("/bin/sh", "-c", `trap '' HUP; exec "$0"`, os.Args[0])
		}
		worker.Env = append(os.Environ(), workerScript+"=sleep "+nap)
		require.NoError(t, worker.Start())
		require.Eventually(t, func() bool { return children(t, worker.Process.Pid) > 1 }, time.Minute, 100*time.Microsecond)
		require.NoError(t, worker.Process.Kill()) // somewhere between the fork and the first instruction of the child
		_ = worker.Wait()
	}
	require.Eventually(t, func() bool { return alive(t, "sleep "+nap) == 0 && alive(t, "sleep\x00"+nap) == 0 }, time.Minute, 10*time.Millisecond)
}

// children counts the processes that a process has started.
func children(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	require.NoError(t, err)
	n := 0
	for _, f := range files {
		list, _ := os.ReadFile(f)
		n += len(strings.Fields(string(list)))
	}
	return n
}

// A child that is killed while it is being started has ended like any other.
func TestKilledAtOnceWhileStarted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	for i := range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(time.Duration(i*50)*time.Microsecond, func() { cancel(proc.ErrAtOnce) })
		_, err := r.Run(ctx, bash("sleep 60"))
		assert.True(t, fault.Has(err, fault.Cancelled), "%v", err)
		timer.Stop()
		cancel(nil)
	}
}
