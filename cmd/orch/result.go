package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
)

// resultOptions are the flags of `orch result`.
type resultOptions struct {
	wait    bool
	timeout time.Duration
	people  approvalWait
}

func newResult(a *app) *cobra.Command {
	var o resultOptions
	cmd := &cobra.Command{
		Use:   "result ID",
		Short: "Print the outputs of a task, when it is over",
		Long: `Print the outputs of a task. While it goes on this waits for its end, and says on stderr what it waits for.
With --timeout it stops then: the exit code is 8, or 9 when the task awaits an approval. Without a terminal it
stops with 9 as soon as the task waits for a person alone, or after --approval-wait. --wait=false does not wait
at all.`,
		Example:           "  orch result @last --timeout 30s -o json",
		Args:              takes("ID"),
		ValidArgsFunction: a.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.result(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the task is over")
	o.people.add(cmd)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time, with the exit code 8 (0: never)")
	return cmd
}

func (a *app) result(ctx context.Context, text string, o resultOptions) error {
	m := idle
	if o.wait {
		m = working
	}
	return a.withTask(ctx, m, text, func(s session, id events.TaskID) error {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil {
			return err
		}
		f := a.follower(s, id, t.Rev)
		f.people = a.peopleWatch(o.people)
		defer f.release(ctx, s)
		if o.wait && !t.State.Terminal() {
			w := newWaitDisplay(a)
			w.begin(ctx, s, t)
			if _, err := a.attend(ctx, f, o.timeout, w, true); err != nil {
				return err
			}
		}
		return a.finish(ctx, f)
	})
}

// finish writes the result of a task and returns the exit code for its state.
func (a *app) finish(ctx context.Context, f *follower) error {
	r, err := f.session.Result(ctx, api.ResultRequest{ID: f.id})
	if err != nil {
		return err
	}
	if err := a.emit(view{data: r, names: []string{string(f.id)}, text: func(io.Writer) error { return a.showResult(r) }}); err != nil {
		return err
	}
	return endOf(r.State)
}

// showResult writes the outputs to stdout, and to stderr why there are none.
func (a *app) showResult(r api.ResultReply) error {
	if r.Error != nil {
		a.note("%s %s: %s", r.ID, r.State, r.Error.Error())
		if r.Error.Hint != "" {
			a.note("hint: %s", r.Error.Hint)
		}
	} else if !r.Over || len(r.Output) == 0 {
		a.note("%s", strings.TrimSpace(string(r.ID)+" is "+string(r.State)+" "+r.Reason))
	}
	if len(r.Output) == 0 {
		return nil
	}
	return writeLines(a.out, screen.Object(a.shortPaths(r.Output)))
}

// shortPaths makes paths of files below the working directory relative to it, so that they can be
// read and opened.
func (a *app) shortPaths(raw json.RawMessage) json.RawMessage {
	fields, ok := screen.Fields(raw)
	if !ok {
		return raw
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(f.Name) // a string can always be encoded
		b.Write(name)
		b.WriteByte(':')
		b.Write(a.shortPath(f.Value))
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func (a *app) shortPath(value json.RawMessage) json.RawMessage {
	var path string
	if json.Unmarshal(value, &path) != nil || !filepath.IsAbs(path) {
		return value
	}
	rel, err := filepath.Rel(a.dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return value
	}
	if _, err := os.Stat(path); err != nil {
		return value
	}
	short, err := json.Marshal(rel)
	if err != nil {
		return value
	}
	return short
}
