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

// startTime is how long a peer may take to start, with the installation of what it needs.
const startTime = 5 * time.Minute

// stopTime is how long a peer may take to end by itself.
const stopTime = 20 * time.Second

// Peer is a server for the tests of one package, started for the first test that asks. Its program prints
// {"port": N} when it listens on loopback, and ends with its standard input, also when the tests are killed.
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

// Address returns host:port of the running peer.
func (p *Peer) Address(tb testing.TB) string {
	tb.Helper()
	p.once.Do(func() { p.err = p.start() })
	if p.err != nil {
		tb.Fatalf("%s does not run: %v; its standard error says why", p.Command[0], p.err)
	}
	return fmt.Sprintf("127.0.0.1:%d", p.port)
}

// Name returns a name that no test had before.
func (p *Peer) Name() string { return fmt.Sprintf("orch-%d", p.names.Add(1)) }

func (p *Peer) start() error {
	p.cmd = exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // it lives as long as the tests of the package
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

func (p *Peer) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// Stop ends the peer, with all processes that it started.
func (p *Peer) Stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.stdin.Close()
	late := time.AfterFunc(stopTime, p.kill)
	_ = p.cmd.Wait() // how it ended does not matter
	late.Stop()
	p.kill() // what it left behind
}

// Main runs the tests of a package and stops the peer before goroutines are counted: goleak.VerifyTestMain
// takes it in place of m.
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
