package firsthour_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// patience is the timeout of waits that normally take no time.
const patience = time.Minute

// orch is the path of the program that users run.
var orch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "firsthour")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if orch, err = need.Orch(dir); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// world is a user's machine: a home, a project, and a node that may die at any time.
type world struct {
	t             *testing.T
	home, project string
	address       string
	node          *exec.Cmd
	gone          chan struct{}
	kills         int
}

func newWorld(t *testing.T, p project) *world {
	t.Helper()
	return worldOf(t, func(w *world) {
		if p.npm != "" {
			w.unpack(p)
		} else {
			w.checkOut(p.module)
		}
		w.track()
	})
}

// worldOf returns the machine of a user whose project a function makes.
func worldOf(t *testing.T, makeProject func(*world)) *world {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &world{t: t, home: home, project: filepath.Join(home, "project"), address: l.Addr().String()}
	require.NoError(t, l.Close())
	makeProject(w)
	w.start()
	t.Cleanup(func() { w.kill() })
	w.run("mcp", "install", "--client", "claude-code", "--yes", "--name", "stdio")
	w.run("mcp", "install", "--client", "claude-code", "--yes", "--name", "http", "--http")
	return w
}

// checkOut copies a module that this one needs, which is in the cache of modules.
func (w *world) checkOut(module string) {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), "go", "mod", "download", "-json", module).Output()
	require.NoError(w.t, err, "%s", out)
	var found struct{ Dir string }
	require.NoError(w.t, json.Unmarshal(out, &found))
	require.NoError(w.t, os.CopyFS(w.project, os.DirFS(found.Dir)))
}

// track creates a repository of the project, whose files the user may write.
func (w *world) track() {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(w.project, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o755)
		} else if err == nil {
			err = os.Chmod(path, 0o644)
		}
		return err
	}))
	w.git("init", "-q")
	w.git("config", "user.name", "Ada")
	w.git("config", "user.email", "ada@example.com")
	w.commit("chore: import")
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), "git", append([]string{"-C", w.project}, args...)...).CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func (w *world) commit(message string) {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-qm", message)
}

// command runs orch as the user does.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), orch, args...)
	cmd.Dir = w.project
	cmd.Env = append(os.Environ(), "HOME="+w.home, "ORCH_ROOT="+w.project, "ORCH_DATA_DIR="+filepath.Join(w.home, "data"), "ORCH_HTTP="+w.address,
		"GOFLAGS=-mod=mod", "GOPROXY=off")
	return cmd
}

// run runs orch and returns its output.
func (w *world) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// start starts the node and returns when it answers.
func (w *world) start() {
	w.t.Helper()
	cmd := w.command("serve")
	logs, err := os.OpenFile(filepath.Join(w.home, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	cmd.Stderr = logs
	require.NoError(w.t, cmd.Start())
	require.NoError(w.t, logs.Close())
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	w.node, w.gone = cmd, gone
	require.Eventually(w.t, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(w.t.Context(), "tcp", w.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, 10*time.Millisecond, "the node does not begin")
}

// kill ends the node as a crash does.
func (w *world) kill() {
	_ = w.node.Process.Kill()
	<-w.gone
}

// crash kills the node and starts it again.
func (w *world) crash() {
	w.t.Helper()
	w.kill()
	w.kills++
	w.start()
}
