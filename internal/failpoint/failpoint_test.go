package failpoint_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/failpoint"
)

// envChild makes the test binary pass points until it is killed.
const envChild = "FAILPOINT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		pass()
		return
	}
	os.Exit(m.Run())
}

// pass prints the injected faults, and a character for each pass of the armed point.
func pass() {
	if failpoint.On(failpoint.SkipDedup) && !failpoint.On(failpoint.SkipFence) {
		_, _ = os.Stdout.WriteString("planted")
	}
	failpoint.Arm(failpoint.Appended, 3)
	for range 5 {
		failpoint.Pass(failpoint.Answered)
		failpoint.Pass(failpoint.Appended)
		_, _ = os.Stdout.WriteString(".")
	}
}

func child(t *testing.T) (string, *os.ProcessState) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), envChild+"=1", failpoint.EnvPlant+"=x,"+string(failpoint.SkipDedup))
	out, err := cmd.Output()
	if failpoint.Enabled {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState
}

func TestPointsEndTheProcessInTestBuildsAlone(t *testing.T) {
	t.Parallel()
	out, state := child(t)
	if !failpoint.Enabled {
		assert.Equal(t, ".....", out)
		return
	}
	assert.Equal(t, "planted..", out, "it ends at the third pass")
	status, ok := state.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGKILL, status.Signal())
}

func TestNothingIsPlantedByDefault(t *testing.T) {
	t.Parallel()
	assert.False(t, failpoint.On(failpoint.AckEarly))
	assert.Equal(t, []int{1}, failpoint.Twice(failpoint.DoubleEnd, true, []int{1}))
	assert.Equal(t, uint64(7), failpoint.Skewed(failpoint.SkipOne, 7))
	called := 0
	done := failpoint.Early(failpoint.AckEarly, func(error) { called++ })
	assert.Zero(t, called)
	done(nil)
	assert.Equal(t, 1, called)
}
