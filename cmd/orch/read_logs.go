package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// logsOptions are the flags of `orch logs`.
type logsOptions struct{ follow, noOutput bool }

func newLogs(c *readCommands) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:     "logs ID",
		Aliases: []string{"log"},
		Short:   "Print what a task logged and called",
		Long: "Print what a task logged and called. With --follow also what the programs of running calls write, as it comes, in whole lines:\n" +
			"who comes late gets the last 16 KiB. That is kept nowhere; the results of the calls are what counts.",
		Example:           "  orch logs @last --follow",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.logs(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until the task is over")
	cmd.Flags().BoolVar(&o.noOutput, "no-output", false, "with --follow, leave out what programs write")
	return cmd
}

func (c *readCommands) logs(ctx context.Context, text string, o logsOptions) error {
	m := idle
	if o.follow {
		m = working
	}
	return c.withTask(ctx, m, text, func(s session, id events.TaskID) error {
		l := &logBuilder{env: c.env}
		for commit, err := range recorded(ctx, s, id, 1) {
			if err != nil {
				return err
			}
			if err := l.commit(commit); err != nil {
				return err
			}
		}
		if !o.follow {
			return nil
		}
		f := c.wait.follower(s, id, l.rev)
		f.output = !o.noOutput
		defer f.release(ctx, s)
		return l.follow(ctx, f)
	})
}

// follow writes new entries until the task has ended.
func (l *logBuilder) follow(ctx context.Context, f *follower) error {
	shown := callOutput{log: l}
	for {
		reply, err := f.next(ctx)
		if err != nil {
			return err
		}
		shown.waiting = append(shown.waiting, reply.Output...)
		for _, c := range reply.Commits {
			if err := errors.Join(shown.beforeEnd(c), l.commit(c)); err != nil {
				return err
			}
		}
		if err := shown.rest(); err != nil {
			return err
		}
		if reply.Ended {
			return nil
		}
	}
}

// logEntry is one line of the log of a task.
type logEntry struct {
	At      time.Time          `json:"at"`
	State   statemachine.State `json:"state"`
	Level   string             `json:"level"`
	Step    string             `json:"step,omitempty"`
	Message string             `json:"message"`
}

// line formats the entry as one escaped line, so that a message cannot look like another entry (S0-151).
func (e logEntry) line() string {
	return fmt.Sprintf("[%s] [%s] [%s] %s", stamp(e.At), e.State, screen.Escape(e.Level), screen.Escape(e.Message))
}

// logBuilder converts commits to entries. It tracks the state of the task.
type logBuilder struct {
	env   *env
	state statemachine.State
	rev   uint64
	tools map[string]string

	attempts attempts
}

func (l *logBuilder) commit(c api.CommitView) error {
	for _, e := range c.Events {
		e = l.attempts.counted(e)
		if e.Kind == events.TaskSubmitted {
			l.state = statemachine.NeedsAction
		}
		if to, ok := statemachine.Next(l.state, e.Kind); ok {
			l.state = to
		}
		if ready, ok := e.Data.(*events.Ready); ok {
			l.remember(ready)
		}
		entry, ok := l.entry(c.At, e)
		if !ok {
			continue
		}
		if err := l.write(entry); err != nil {
			return err
		}
	}
	l.rev = c.Rev
	return nil
}

func (l *logBuilder) write(e logEntry) error {
	if l.env.cfg.Output == "text" {
		return writeLines(l.env.out, []string{e.line()})
	}
	return writeLine(l.env.out, e)
}

func (l *logBuilder) remember(r *events.Ready) {
	if l.tools == nil {
		l.tools = map[string]string{}
	}
	l.tools[r.Step] = r.Tool
}

// entry returns the log entry for a message, a call or the result of a call. It returns false for other events.
func (l *logBuilder) entry(at time.Time, e events.Event) (logEntry, bool) {
	line := func(level, step, format string, args ...any) (logEntry, bool) {
		return logEntry{At: at, State: l.state, Level: level, Step: step, Message: fmt.Sprintf(format, args...)}, true
	}
	switch d := e.Data.(type) {
	case *events.Logged:
		return logEntry{At: d.At, State: l.state, Level: d.Level, Step: d.Step, Message: d.Message}, true
	case *events.Called:
		return line("INFO", d.Step, "%s: calls %s%s", d.Step, l.tools[d.Step], attemptText(d.Attempt))
	case *events.Succeeded:
		if l.tools[d.Step] == "" {
			return logEntry{}, false
		}
		return line("INFO", d.Step, "%s: %s succeeded %s", d.Step, l.tools[d.Step], durationText(d.Duration))
	case *events.StepError:
		return line("ERROR", d.Step, "%s: %s: %s", d.Step, strings.TrimLeft(l.tools[d.Step]+" failed", " "), errorText(d.Error))
	case *events.Retrying:
		if d.Round > 0 {
			return line("INFO", d.Step, "%s: %s is not as awaited in round %d; again at %s", d.Step, l.tools[d.Step], d.Round, stamp(d.At))
		}
		return line("WARN", d.Step, "%s: %s failed: %s; again at %s", d.Step, l.tools[d.Step], errorText(d.Error), stamp(d.At))
	case *events.Noted:
		return line("INFO", d.Step, "%s: %s goes on elsewhere%s", d.Step, l.tools[d.Step], attemptText(d.Attempt))
	case *events.InDoubt:
		return line("WARN", d.Step, "%s: %s is in doubt: %s%s", d.Step, l.tools[d.Step], d.Reason, mayRun(d.Until))
	case *events.RefusedTurn:
		return line("WARN", d.Step, "%s: turn %d is too long for the model; the conversation becomes shorter, with about %d tokens at most", d.Step, d.Turn, d.CompactAt)
	case *events.Refused:
		return line("WARN", d.Step, "%s: a late result of %s was refused: %s", d.Step, d.Worker, d.Reason)
	default:
		return logEntry{}, false
	}
}
