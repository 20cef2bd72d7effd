package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
)

// trial is a worker in a process of its own, and the stand-in that it speaks to.
type trial struct {
	*standIn

	command []string
	output  io.Writer
	// dir has the file of the credential; url and secret are in it.
	dir, url, secret string
	server           *http.Server
	worker           *exec.Cmd
	// ended is closed when the process of the worker has ended.
	ended chan struct{}
}

// checkWorker tries a command that starts a worker on the rules whose names match a glob, and writes a line about each of them.
// patience is how long to wait for what a worker must do.
func checkWorker(ctx context.Context, w io.Writer, command []string, only string, patience time.Duration) error {
	t, err := newTrial(ctx, command, w, patience)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.start(ctx); err != nil {
		return err
	}
	failed := 0
	for _, r := range append(rules(), rule{"renews-its-secret", t.renewed}, rule{"says-goodbye", t.goodbye}, rule{"ends-for-another-process", t.replaced}) {
		if chosen, err := path.Match(only, r.name); err != nil || !chosen {
			continue
		}
		err := r.try(ctx, t.standIn)
		if problems := t.takeProblems(); err == nil && problems != "" {
			err = fault.New(fault.ToolFailed, "%s", problems)
		}
		if err != nil {
			failed++
			_, _ = fmt.Fprintf(w, "FAIL %s: %v\n", r.name, err)
			continue
		}
		_, _ = fmt.Fprintf(w, "ok   %s\n", r.name)
	}
	if failed > 0 {
		return fault.New(fault.ToolFailed, "the worker has broken %d rules", failed)
	}
	return nil
}

// newTrial starts a stand-in.
func newTrial(ctx context.Context, command []string, output io.Writer, patience time.Duration) (*trial, error) {
	dir, err := os.MkdirTemp("", "workerprotocol-")
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	const length = 43
	secret := "orch_" + (rand.Text() + rand.Text())[:length]
	t := &trial{standIn: newStandIn(secret, patience), command: command, output: output, dir: dir, url: "http://" + l.Addr().String(), secret: secret}
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: usualPatience}
	go func() { _ = t.server.Serve(l) }() // until close
	return t, nil
}

// start starts the worker, with a credential more than half of whose life has passed.
func (t *trial) start(ctx context.Context) error {
	now := time.Now().UTC()
	credential, err := json.Marshal(map[string]any{
		"key": "agent:conformer", "secret": t.secret, "url": t.url,
		"issued_at": now.Add(-13 * time.Hour).Format(time.RFC3339), "expires_at": now.Add(11 * time.Hour).Format(time.RFC3339),
	})
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, "credential.json")
	if err := os.WriteFile(file, credential, 0o600); err != nil {
		return err
	}
	t.worker = exec.CommandContext(ctx, t.command[0], t.command[1:]...)
	t.worker.Env = append(os.Environ(), "ORCH_CREDENTIAL="+file, "ORCH_URL="+t.url, "ORCH_TOKEN="+t.secret)
	t.worker.Stdout, t.worker.Stderr = t.output, t.output
	if err := t.worker.Start(); err != nil {
		return fault.Wrap(fault.ExecFailed, err, "the worker cannot be started")
	}
	worker, ended := t.worker, make(chan struct{})
	t.ended = ended
	go func() {
		_ = worker.Wait() // how it ends is its business
		close(ended)
	}()
	return nil
}

func (t *trial) close() {
	_ = t.worker.Process.Kill() // it may have ended
	_ = t.server.Close()        // nobody needs the answers that wait
	_ = os.RemoveAll(t.dir)
}

// renewed waits until the worker has made itself another secret and uses it.
func (t *trial) renewed(ctx context.Context, s *standIn) error {
	return s.await(ctx, "use another secret", func() bool { return len(s.secrets) == 1 && s.secrets[0] != t.secret })
}

// goodbye asks the worker to end in the middle of a call: it gives the call back, and says that it leaves.
func (t *trial) goodbye(ctx context.Context, s *standIn) error {
	g := s.offer(time.Hour.Seconds(), shortLease)
	if err := s.await(ctx, "name the call that runs", func() bool { return len(g.named) > 0 }); err != nil {
		return err
	}
	if err := t.worker.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.await(ctx, "leave", func() bool { return s.left }); err != nil {
		return err
	}
	s.mu.Lock()
	reports := len(g.reports)
	s.mu.Unlock()
	if reports == 0 {
		return fault.New(fault.ToolFailed, "it left without giving its call back")
	}
	return t.end("end after it has left")
}

// replaced starts the worker again, and tells it that another process speaks for the agent: it ends.
func (t *trial) replaced(ctx context.Context, s *standIn) error {
	s.set(func() { s.instance, s.left, s.secrets, s.refuse = "", false, []string{t.secret}, http.StatusConflict })
	if err := t.start(ctx); err != nil {
		return err
	}
	return t.end("end")
}

// end waits until the process of the worker has ended.
func (t *trial) end(what string) error {
	select {
	case <-t.ended:
		return nil
	case <-time.After(t.patience):
		return fault.New(fault.ToolFailed, "the process did not %s within %s", what, t.patience)
	}
}
