package realtime_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
	"github.com/orch-dev/orch/tools/firebase/realtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(main{m}) }

// main stops the peer before goroutines are counted.
type main struct{ tests *testing.M }

func (m main) Run() int {
	defer engine.stop()
	return m.tests.Run()
}

// startTime is how long the peer may take to start, with the installation of its packages.
const startTime = 5 * time.Minute

// peer is the engine of Google behind the protocol of the server, started for the first test that asks.
type peer struct {
	once  sync.Once
	cmd   *exec.Cmd
	stdin io.Closer
	port  int
	err   error
	names atomic.Int64
}

var engine peer

// url returns that of an empty database.
func (p *peer) url(tb testing.TB) string {
	tb.Helper()
	p.once.Do(func() { p.err = p.start() })
	require.NoError(tb, p.err, "the Realtime Database of the tests needs node and npm, and once the packages of scripts/firebase/package-lock.json")
	return fmt.Sprintf("http://127.0.0.1:%d?ns=db%d", p.port, p.names.Add(1))
}

func (p *peer) start() error {
	p.cmd = exec.Command("../../../scripts/firebase/run", "realtime.mjs")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil { // the peer ends with it, also when the tests are killed
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(startTime, p.kill)
	defer late.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("it ended before it listened: %w", err)
	}
	var said struct {
		Port int `json:"port"`
	}
	err = json.Unmarshal(line, &said)
	p.port = said.Port
	return err
}

func (p *peer) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

func (p *peer) stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.stdin.Close()
	p.kill()
	_ = p.cmd.Wait() // it was killed
}

const backlog = 64

func TestConformance(t *testing.T) {
	t.Parallel()
	firebasetest.Realtime(t, firebasetest.Kit{
		Open: func(tb testing.TB) firebase.Backend {
			tb.Helper()
			c, err := realtime.Open(realtime.Config{URL: engine.url(tb), Backlog: backlog})
			require.NoError(tb, err)
			return c
		},
		Backlog: backlog,
	})
}
