package workers_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// patience bounds waits that are normally short.
const patience = 60 * time.Second

// binary is the path of the orch binary.
var binary string //nolint:gochecknoglobals // built once for all tests

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "workers")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			binary, err = need.Orch(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// world is a node in a process of its own, with a registered agent.
type world struct {
	t *testing.T
	// dir has the data, the root and what workers write; credential is the file of the agent.
	dir, address, credential string
	node                     *exec.Cmd
}

func newWorld(t *testing.T, capabilities ...string) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &world{t: t, dir: t.TempDir(), address: l.Addr().String()}
	require.NoError(t, l.Close())
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "root"), 0o700))
	w.start()
	args := []string{"agents", "register", "worker", "--max-tasks", "16", "-o", "json"}
	for _, c := range capabilities {
		args = append(args, "--capability", c)
	}
	credential, err := w.orch(args...).Output()
	require.NoError(t, err)
	w.credential = filepath.Join(w.dir, "worker.json")
	require.NoError(t, os.WriteFile(w.credential, credential, 0o600))
	return w
}

// orch returns a command of the binary for the data of the world.
func (w *world) orch(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append(args, "--data-dir", filepath.Join(w.dir, "data"), "--root", filepath.Join(w.dir, "root"))...)
	cmd.Env = append(os.Environ(), "HOME="+w.dir)
	return cmd
}

// start starts the node and waits until it is ready.
func (w *world) start() {
	w.t.Helper()
	w.node = w.run(w.orch("serve", "--http", w.address))
	require.Eventually(w.t, func() bool {
		answer, err := http.Get("http://" + w.address + "/readyz")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond)
}

// run starts a process, which ends with the test. What it prints is in the log of a failed test.
func (w *world) run(cmd *exec.Cmd) *exec.Cmd {
	w.t.Helper()
	var output bytes.Buffer
	cmd.Stderr = &output
	if cmd.Stdout == nil {
		cmd.Stdout = &output
	}
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		kill(cmd)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", filepath.Base(cmd.Path), output.String())
		}
	})
	return cmd
}

// kill ends a process as kill -9 does.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

// token returns the secret of an operator.
func (w *world) token() string {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "data", "mcp.token"))
	require.NoError(w.t, err)
	return strings.TrimSpace(string(secret))
}

// lines returns the lines of a file that a worker writes.
func (w *world) lines(name string) []string {
	content, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

// until waits until a worker has written a number of lines.
func (w *world) until(name string, lines int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.lines(name)) >= lines }, patience, time.Millisecond)
}
