package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// lines is a writer that sends what is written to it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A cancellation ends the whole process group of a running call.
func TestCancelEndsProcesses(t *testing.T) {
	t.Parallel()
	runner, err := proc.New(proc.Config{})
	require.NoError(t, err)
	output := make(lines, 4)
	b := newBench(t, worker.Config{Exec: runner}, readTool("SLEEP", func(ctx context.Context, env *tools.Env) (string, error) {
		_, err := env.Exec.Run(ctx, proc.Command{
			Name: "sh", Args: []string{"-c", "sleep 1000 & echo $$ $!; wait"}, Dir: env.Root.Name(), Stdout: output,
		})
		return "", err
	}))
	stop := b.run(t)
	calls := b.give("SLEEP", 1)
	pids := strings.Fields(<-output)
	require.Len(t, pids, 2)
	for _, pid := range pids {
		require.True(t, runs(t, pid))
	}
	b.owner.cancels <- []work.Ref{calls[0].Ref}
	assert.Equal(t, "cancelled", (<-b.owner.outcomes).Class)
	for _, pid := range pids {
		assert.Eventually(t, func() bool { return !runs(t, pid) }, time.Minute, 5*time.Millisecond)
	}
	stop()
}

// runs reports whether the process runs; a zombie (state Z) does not.
func runs(t *testing.T, pid string) bool {
	t.Helper()
	_, err := strconv.Atoi(pid)
	require.NoError(t, err)
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && found && state[0] != 'Z' && state[0] != 'X'
}
