package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/work"
)

const (
	// exitTemporary is the exit status (EX_TEMPFAIL) with which a program returns a call, so that another agent can execute it.
	exitTemporary = 75
	// maxPrinted limits the bytes of a program's stdout. maxComplaint limits the bytes of its stderr in an error.
	maxPrinted   = 4 << 20
	maxComplaint = 2 << 10
	// killAfter is how long a program may take to end after SIGTERM.
	killAfter = 5 * time.Second
)

// execute implements peer.Handler: it executes a call by running the program. When the call ends, it stops the program and its
// child processes.
func (p program) execute(ctx context.Context, a agents.Assignment, show func(work.Progress)) agents.Report {
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Stdin = bytes.NewReader(a.Args)
	out, complaint := &capped{limit: maxPrinted}, &capped{limit: maxPrinted}
	lines := &progressLines{show: show}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, lines.stream()), io.MultiWriter(complaint, lines.stream())
	cmd.Env = append(os.Environ(),
		"ORCH_AGENT="+p.name, "ORCH_TASK="+string(a.Task), "ORCH_STEP="+a.Step, "ORCH_ATTEMPT="+strconv.Itoa(a.Attempt), "ORCH_KEY="+a.Key,
		"ORCH_CALL="+a.String(), "ORCH_HANDOVER="+a.Handover, "ORCH_HANDOVER_DATA="+string(a.HandoverData),
		"ORCH_URL="+p.url, "ORCH_TOKEN="+p.token())
	if a.TraceParent != "" {
		cmd.Env = append(cmd.Env, "TRACEPARENT="+a.TraceParent)
	}
	if a.TraceState != "" {
		cmd.Env = append(cmd.Env, "TRACESTATE="+a.TraceState)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	return reportOf(p.run(ctx, cmd), out, complaint)
}

// run runs a program until it ends, and then kills the child processes that are still running.
func (p program) run(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	defer kill()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for _, end := range []<-chan struct{}{ctx.Done(), p.cut} { // in this order: a program that is killed before its call ends counts as failed
			select {
			case <-end:
			case <-ended:
				return
			}
		}
		kill()
	}()
	return cmd.Wait()
}

// reportOf converts the end of a program to a report.
func reportOf(err error, out, complaint *capped) agents.Report {
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program succeeded, but a child process kept its output open
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	stderrTail := tailOf(strings.ToValidUTF8(complaint.kept.String(), "\ufffd"))
	switch {
	case ended && exit.ExitCode() == exitTemporary:
		return agents.Report{Release: true, Error: stderrTail, Data: handedOverOutput(out)}
	case ended:
		return agents.Report{Error: "the program has ended with " + exit.String() + ": " + stderrTail}
	case err != nil:
		return agents.Report{Error: "the program cannot be run: " + err.Error()}
	case out.exceeded:
		return agents.Report{Error: "the program has printed more than " + strconv.Itoa(maxPrinted) + " bytes"}
	}
	return agents.Report{Result: resultOf(out.kept.Bytes())}
}

// maxHandedOver limits the bytes that a program hands over with a call that it returns.
const maxHandedOver = 64 << 10

// handedOverOutput returns the output of a program that returns its call, for the agent that executes the call next. It returns nil if
// the output is not JSON or is too large.
func handedOverOutput(out *capped) json.RawMessage {
	printed := bytes.TrimSpace(out.kept.Bytes())
	if len(printed) > maxHandedOver || !json.Valid(printed) {
		return nil
	}
	return printed
}

// resultOf returns the output unchanged if it is JSON, otherwise as a JSON string.
func resultOf(printed []byte) json.RawMessage {
	printed = bytes.TrimSpace(printed)
	if len(printed) == 0 {
		return nil
	}
	if json.Valid(printed) {
		return printed
	}
	text, _ := json.Marshal(strings.ToValidUTF8(string(printed), "\ufffd")) // every string can be encoded
	return text
}

func tailOf(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxComplaint {
		return "…" + strings.ToValidUTF8(text[len(text)-maxComplaint:], "")
	}
	return text
}

// capped stores the first bytes that are written to it, and drops the rest. It does not embed its buffer, because the method
// ReadFrom of the buffer would store everything.
type capped struct {
	kept     bytes.Buffer
	limit    int
	exceeded bool
}

// Write implements io.Writer.
func (c *capped) Write(b []byte) (int, error) {
	room := c.limit - c.kept.Len()
	if len(b) > room {
		c.exceeded = true
		_, _ = c.kept.Write(b[:room])
		return len(b), nil
	}
	return c.kept.Write(b)
}
