package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// follow reads the history of a task with `orch watch`, prints what the agent does, and returns when done returns true after a
// commit, or when the task has ended.
func (w *demoWorld) follow(ctx context.Context, t *demoTask, done func() (bool, error)) error {
	patience := time.Minute
	if w.model.real {
		patience = 15 * time.Minute // the agent has ten
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fault.New(fault.Timeout, "the agent goes on after %s", patience))
	cmd := w.command(ctx, "orch", "watch", t.id, "-o", "jsonl", "--after", strconv.FormatUint(t.rev, 10), "--approval-wait", patience.String())
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return fault.Wrap(fault.ExecFailed, err, "the task cannot be watched")
	}
	err = w.read(ctx, json.NewDecoder(out), t, done)
	cause := context.Cause(ctx)
	cancel()
	_ = cmd.Wait() // how it ended does not matter: err says whether everything was read
	switch {
	case err == nil || !errors.Is(err, io.EOF):
		return err
	case cause != nil:
		return cause
	default:
		return fault.New(fault.ExecFailed, "orch watch %s ended too early: %s", t.id, strings.TrimSpace(problem.String()))
	}
}

// read applies commits until done returns true or the task has ended. It returns io.EOF if there are no more.
func (w *demoWorld) read(ctx context.Context, commits *json.Decoder, t *demoTask, done func() (bool, error)) error {
	for {
		var c api.CommitView
		if err := commits.Decode(&c); err != nil {
			return err
		}
		lines := t.apply(c)
		for _, line := range lines {
			w.say("%s", strings.ReplaceAll(line, w.work+"/", ""))
		}
		if ok, err := done(); ok || err != nil || t.ended != "" {
			return err
		}
		if w.calm && len(lines) > 0 {
			w.rest(ctx, len(lines))
		}
	}
}
