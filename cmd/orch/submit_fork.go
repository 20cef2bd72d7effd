package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// forkOptions are the flags of `orch fork`.
type forkOptions struct {
	at, liveFrom string
	set, repeat  []string
	dryRun       bool

	waitOptions
}

func newFork(c *submitCommands) *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Run a task again from a cut, with its recorded results before it",
		Long: `Submit a new task of the same plan that stands on the recorded results of another one, and runs live after a cut.
The other task may be in any state, and stays as it is.

--at STEP cuts before a step: it runs live, and all that need it. --at REV takes only the results up to that revision
(orch history). Without --at all results are taken, and what has none runs. Steps that read an input that --set changes
run live as well. An agent step goes on with its next turn, or with turn N at --at STEP.tN; at --at STEP it begins anew.

What had effects is not repeated silently: the command names those steps, and --repeat allows them. Policy and approvals
apply to live calls as in any task.`,
		Example: `  orch fork @last --at report --set style=short --dry-run
  orch fork @last --at 12 --repeat publish`,
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.fork(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "", "the cut: a step, a turn of an agent step as STEP.tN, or a revision of the history (default: the newest)")
	f.StringVar(&o.liveFrom, "live-from", "", "run this step live, too, and all that need it")
	f.StringArrayVar(&o.set, "set", nil, "change an input: name=value, or name:=json")
	f.StringSliceVar(&o.repeat, "repeat", nil, "steps with effects that may happen again, or all")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what the fork would reuse, run and repeat")
	addWait(cmd, &o.waitOptions)
	addSettings(f, true, true)
	return cmd
}

func (c *submitCommands) fork(ctx context.Context, text string, o forkOptions) error {
	m := o.mode()
	if o.dryRun {
		m = idle
	}
	return c.withTask(ctx, m, text, func(s session, id events.TaskID) error {
		set, err := changedInputs(ctx, s, id, o.set)
		if err != nil {
			return err
		}
		reply, err := s.Fork(ctx, api.ForkRequest{
			ID: id, Fork: events.NewTaskID(c.now()), At: o.at, LiveFrom: o.liveFrom, Set: set, Repeat: o.repeat, DryRun: o.dryRun,
			Actor: c.actor(), Via: "fork",
		})
		if err != nil {
			return err
		}
		if o.dryRun {
			return c.emit(view{data: reply, names: reply.Live, text: func(w io.Writer) error { return writeLines(w, forkLines(reply)) }})
		}
		if c.cfg.Output == "text" {
			for _, line := range forkLines(reply) {
				c.note("%s", line)
			}
		}
		return c.wait.afterStart(ctx, s, api.SubmitReply{ID: reply.ID, State: reply.State, Existing: reply.Existing}, o.waitOptions)
	})
}

// changedInputs parses the inputs to change. A value is of the type that it has in the task, if it can be.
func changedInputs(ctx context.Context, s session, id events.TaskID, args []string) (map[string]json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	t, err := s.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, err
	}
	var old map[string]json.RawMessage
	_ = json.Unmarshal(t.Inputs, &old) // without inputs all values are texts
	given := make(map[string]json.RawMessage, len(args))
	for _, arg := range args {
		one, err := parsePairs([]string{arg}, inputSchema{}, "--set", func(text string) json.RawMessage { return likeOld(old, arg, text) })
		if err != nil {
			return nil, err
		}
		for name, value := range one {
			if _, twice := given[name]; twice {
				return nil, fault.New(fault.InvalidParams, "is given twice").WithField(name)
			}
			given[name] = value
		}
	}
	return given, nil
}

// likeOld returns the text of an argument as a text if the input is one or is new, else as JSON if it is valid.
func likeOld(old map[string]json.RawMessage, arg, text string) json.RawMessage {
	name, _, _ := strings.Cut(arg, "=")
	was := strings.TrimSpace(string(old[name]))
	if was != "" && !strings.HasPrefix(was, `"`) && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return asText(text)
}

// forkLines describes a fork.
func forkLines(r api.ForkReply) []string {
	lines := []string{fmt.Sprintf("stands on revision %d", r.At)}
	add := func(what string, steps []string) {
		if len(steps) > 0 {
			lines = append(lines, what+screen.Escape(strings.Join(steps, ", ")))
		}
	}
	add("reuses       ", r.Reused)
	add("runs live    ", r.Live)
	add("continues    ", continuedNames(r.Continued))
	add("stands on    ", effectNames(r.StandsOn))
	add("repeats      ", effectNames(r.Repeats))
	return lines
}

func continuedNames(agents []api.ContinuedAgent) []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = fmt.Sprintf("%s from turn %d", a.Step, a.Turn)
	}
	return names
}

func effectNames(effects []api.ForkEffect) []string {
	names := make([]string, len(effects))
	for i, e := range effects {
		names[i] = fmt.Sprintf("%s (%s, %s)", e.Step, e.Tool, e.Effect)
		if e.Child != "" {
			names[i] = fmt.Sprintf("%s (task %s)", e.Step, e.Child)
		}
	}
	return names
}
