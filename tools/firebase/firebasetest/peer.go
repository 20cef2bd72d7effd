package firebasetest

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
)

// startTime is the time limit for the start of a peer, including the installation of its dependencies.
const startTime = 5 * time.Minute

// stopTime is the time limit for a peer to exit by itself.
const stopTime = 20 * time.Second

// Peer is a server program for the tests of one package. Address starts the program. It must print {"port": N} when it
// listens on loopback, and exit when its standard input is closed, which also happens when the tests are killed.
type Peer struct {
	// Command is the program with its arguments.
	Command []string

	once  sync.Once
	cmd   *exec.Cmd
	stdin io.Closer
	port  int
	err   error
	names atomic.Int64
}

// Address returns the host:port of the running peer.
func (p *Peer) Address(tb testing.TB) string {
	tb.Helper()
	p.once.Do(func() { p.err = p.start() })
	if p.err != nil {
		tb.Fatalf("%s does not run: %v; its standard error says why", p.Command[0], p.err)
	}
	return fmt.Sprintf("127.0.0.1:%d", p.port)
}

// Name returns a name that no other call returns.
func (p *Peer) Name() string { return fmt.Sprintf("orch-%d", p.names.Add(1)) }

func (p *Peer) start() error {
	p.cmd = exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // the process runs until the tests of the package end
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	timer := time.AfterFunc(startTime, p.kill)
	defer timer.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the program ended before it listened: %w", err)
	}
	var ready struct {
		Port int `json:"port"`
	}
	err = json.Unmarshal(line, &ready)
	p.port = ready.Port
	return err
}

func (p *Peer) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// Stop stops the peer and all processes that it started.
func (p *Peer) Stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.stdin.Close()
	timer := time.AfterFunc(stopTime, p.kill)
	_ = p.cmd.Wait() // the exit status does not matter
	timer.Stop()
	p.kill() // remaining child processes
}

// Main returns a runner for goleak.VerifyTestMain. It runs m and then stops the peer, before goleak counts goroutines.
func (p *Peer) Main(m *testing.M) interface{ Run() int } { return stopping{p, m} }

type stopping struct {
	peer  *Peer
	tests *testing.M
}

// Run implements goleak.TestingM.
func (s stopping) Run() int {
	defer s.peer.Stop()
	return s.tests.Run()
}
