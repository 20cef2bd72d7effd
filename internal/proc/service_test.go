package proc_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
)

// serviceScript is the variable that makes this binary a worker, which starts one service.
const serviceScript = "PROC_TEST_SERVICE"

// keep runs the process that starts a service and waits for its end. The service inherits its output.
func keep(script string) {
	cmd := exec.CommandContext(context.Background(), "bash", "-c", script)
	cmd.Stdout = os.Stdout
	service, err := proc.NewServices(slog.New(slog.DiscardHandler)).Start(cmd)
	if err != nil {
		panic(err)
	}
	<-service.Done()
}

// startService starts a service and returns when it has printed "begun".
func startService(t *testing.T, script string) *proc.Service {
	t.Helper()
	services := proc.NewServices(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	in, out, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), "bash", "-c", script)
	cmd.Stdout = out
	service, err := services.Start(cmd)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	line, err := bufio.NewReader(in).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "begun\n", line)
	require.NoError(t, in.Close())
	return service
}

func TestServiceEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	service := startService(t, "trap '' TERM; sleep "+naps("65.1")+" & echo begun; wait; wait")
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+naps("65.1")) == 1 }, time.Minute, 5*time.Millisecond)
	assert.False(t, service.End(20*time.Millisecond))
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+naps("65.1")) == 0 }, time.Minute, 5*time.Millisecond)
	require.Error(t, service.Err())
}

// Processes that a service leaves behind are killed.
func TestServiceLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	service := startService(t, "sleep "+naps("65.2")+" & echo begun")
	assert.True(t, service.End(time.Minute))
	require.NoError(t, service.Err())
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+naps("65.2")) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestKilledKeeperLeavesNoService(t *testing.T) {
	t.Parallel()
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), serviceScript+"=trap '' TERM HUP; echo begun; sleep "+naps("65.3"))
	out, err := keeper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, keeper.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "begun\n", line)
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+naps("65.3")) == 1 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, keeper.Process.Kill())
	require.Error(t, keeper.Wait())
	require.Eventually(t, func() bool { return alive(t, "sleep\x00"+naps("65.3")) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestServiceThatCannotStart(t *testing.T) {
	t.Parallel()
	services := proc.NewServices(slog.New(slog.DiscardHandler))
	_, err := services.Start(exec.CommandContext(t.Context(), "/no/such/program"))
	require.Error(t, err)
	require.NoError(t, services.Close())
}
