package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/orch-dev/orch/fault"
)

// demoNode is a process of `orch serve`.
type demoNode struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
}

// startNode starts a node and waits until it serves.
func (w *demoWorld) startNode(ctx context.Context) error {
	w.prompt("orch serve &")
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the node is stopped last, also after an interrupt
	cmd := w.command(own, "orch", "serve", "-o", "json")
	w.node = &demoNode{cmd: cmd, cancel: cancel}
	log, err := os.OpenFile(filepath.Join(w.dir, "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the log of the node cannot be opened")
	}
	defer func() { _ = log.Close() }() // the node has its own descriptor
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fault.Wrap(fault.ExecFailed, err, "the node cannot be started")
	}
	var started struct {
		Address string `json:"address"`
	}
	if err := json.NewDecoder(out).Decode(&started); err != nil {
		return w.nodeFailed(err)
	}
	w.say("process %d serves at %s", cmd.Process.Pid, started.Address)
	return nil
}

// nodeFailed returns the error of a node that does not serve.
func (w *demoWorld) nodeFailed(err error) error {
	log, _ := os.ReadFile(filepath.Join(w.dir, "node.log")) // without it, the error has no details
	return fault.New(fault.Unavailable, "the node does not start: %w: %s", err, log).WithHint("orch doctor looks for the cause")
}

// killNode ends the node as a crash would.
func (w *demoWorld) killNode() error {
	w.prompt("kill -9 " + strconv.Itoa(w.node.cmd.Process.Pid))
	if err := w.node.cmd.Process.Kill(); err != nil {
		return fault.Wrap(fault.Internal, err, "the node cannot be killed")
	}
	w.node.stop()
	return nil
}

// stop interrupts the node, unless it has ended, and waits for its end.
func (n *demoNode) stop() {
	n.cancel()
	if n.cmd.Process != nil {
		_ = n.cmd.Wait() // how it ended does not matter
	}
}
