package outside_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/node"
)

// The environment of the processes that the tests start from their own binary.
const (
	// envPeer makes the process an MCP server of that kind, which works in the directory envDir.
	envPeer = "OUTSIDE_PEER"
	// envNode makes the process a node; the value is the directory of its world.
	envNode = "OUTSIDE_NODE"
	envDir  = "OUTSIDE_DIR"
	// envSecret is a secret of a server.
	envSecret = "OUTSIDE_SECRET"
)

// patience bounds waits that are normally short.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envPeer) != "":
		servePipe(os.Getenv(envPeer), os.Getenv(envDir))
		os.Exit(0)
	case os.Getenv(envNode) != "":
		if err := serveNode(os.Getenv(envNode)); err != nil {
			fmt.Fprintln(os.Stderr, "the node ends:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// serveNode is the main program of a node.
func serveNode(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := node.Start(ctx, config(dir, os.Stderr))
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString("ready\n")
	<-ctx.Done()
	return errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
}

// process is a node of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts a node of its own for a world, which ends with the test, and returns when it is ready.
func (w *world) spawn() *process {
	w.t.Helper()
	cmd := exec.Command(executable(w.t))
	cmd.Env = append(os.Environ(), envNode+"="+w.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	logs, err := os.OpenFile(filepath.Join(w.dir, "node.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(w.t, err)
	defer logs.Close()
	cmd.Stderr = logs
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.done)
		if line, _ := bufio.NewReader(out).ReadString('\n'); line == "ready\n" {
			close(ready)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // its state tells
	}()
	w.t.Cleanup(p.kill)
	select {
	case <-ready:
	case <-p.done:
		require.FailNow(w.t, "the node has ended by itself", cmd.ProcessState.String()+w.logged())
	case <-time.After(patience):
		require.FailNow(w.t, "the node does not answer")
	}
	remote, err := node.Dial(w.t.Context(), config(w.dir, io.Discard))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = remote.Close() })
	w.api = remote
	return p
}

// kill ends a node as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// terminate stops a node.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(patience):
		require.FailNow(t, "the node does not end")
	}
	require.True(t, p.cmd.ProcessState.Success(), p.cmd.ProcessState.String())
}

func executable(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return program
}
