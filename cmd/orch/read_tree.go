package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// maxFamily limits the tasks of `orch tree`.
const maxFamily = 1000

func newTree(c *readCommands) *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "tree ID",
		Short: "Show a task with all that was started for it, and by whom",
		Long: `Show the tree that a task belongs to, from its uppermost task: sub-plans, child tasks, the calls of agents, and the tasks
that agents have delegated. Any task of the tree will do as ID. The oldest tasks are shown, as many as --limit says.`,
		Example:           "  orch tree @last",
		Args:              takes("ID"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.tree(cmd.Context(), args[0], limit) },
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "tasks to show, 1 to 1000")
	return cmd
}

// relative is a task in the tree of its parents and child tasks.
type relative struct {
	ID    events.TaskID      `json:"id"`
	Name  string             `json:"name"`
	State statemachine.State `json:"state"`
	// Step is the step of the parent that started the task. By is the identity that submitted it. Agent is the agent type of a
	// child task.
	Step  string `json:"step,omitempty"`
	By    string `json:"by,omitempty"`
	Agent string `json:"agent,omitempty"`

	CreatedAt time.Time     `json:"created_at"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"`
	Duration  time.Duration `json:"duration"`
	Reason    string        `json:"reason,omitempty"`
	Calls     []agentCall   `json:"calls,omitempty"`
	Tasks     []*relative   `json:"tasks,omitempty"`
	// Left is the number of tasks in the whole tree that are not shown. It is set in the topmost task.
	Left int `json:"left,omitempty"`
}

// agentCall is a step of a task whose call is executed by an agent.
type agentCall struct {
	Step     string                 `json:"step"`
	Title    string                 `json:"title,omitempty"`
	State    statemachine.StepState `json:"state"`
	Agent    string                 `json:"agent,omitempty"`
	Attempt  int                    `json:"attempt,omitempty"`
	Duration time.Duration          `json:"duration,omitempty"`
}

func (c *readCommands) tree(ctx context.Context, text string, limit int) error {
	if limit < 1 || limit > maxFamily {
		return fault.New(fault.ValidationError, "%d is not between 1 and %d", limit, maxFamily).WithField("--limit")
	}
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		reply, err := s.List(ctx, api.ListRequest{Tree: id, Limit: limit})
		if err != nil {
			return err
		}
		root, err := c.family(ctx, s, reply)
		if err != nil {
			return err
		}
		return c.emit(view{data: root, names: root.ids(nil), text: func(w io.Writer) error {
			lines := familyRenderer{treeRenderer{c.style(c.outTTY), c.now()}}.lines(root, "")
			if root.Left > 0 {
				c.note("%s more: --limit", screen.Plural(root.Left, "task"))
			}
			return writeLines(w, lines)
		}})
	})
}

func (c *readCommands) relativeOf(t api.TaskView) *relative {
	end := c.now()
	if t.EndedAt != nil {
		end = *t.EndedAt
	}
	r := &relative{
		ID: t.ID, Name: t.Name, State: t.State, Step: t.ParentStep, Agent: t.Agent, Reason: t.Reason,
		CreatedAt: t.CreatedAt, EndedAt: t.EndedAt, Duration: end.Sub(t.CreatedAt),
	}
	if !strings.HasPrefix(t.Requestor, "task:") {
		r.By = t.Requestor
	}
	for _, s := range t.Steps {
		if s.For == nil {
			continue
		}
		took := s.Duration
		if s.State == statemachine.StepRunning && s.Since != nil {
			took = c.now().Sub(*s.Since)
		}
		r.Calls = append(r.Calls, agentCall{Step: s.Key, Title: s.Title, State: s.State, Agent: s.Worker, Attempt: s.Attempt, Duration: took})
	}
	return r
}

// ids appends the ids of the task and of all its descendants to all.
func (r *relative) ids(all []string) []string {
	all = append(all, string(r.ID))
	for _, t := range r.Tasks {
		all = t.ids(all)
	}
	return all
}

// familyRenderer draws a tree of tasks.
type familyRenderer struct{ treeRenderer }

// lines draws a task and its descendants: first its agent calls, each followed by the child tasks of that call, and then the
// other child tasks.
func (d familyRenderer) lines(r *relative, indent string) []string {
	lines := []string{indent + d.head(r)}
	shown := map[string]bool{}
	below := indent + "  "
	for _, c := range r.Calls {
		shown[c.Step] = true
		lines = append(lines, below+d.call(c))
		lines = append(lines, d.tasks(r, below+"  ", func(t *relative) bool { return t.Step == c.Step })...)
	}
	return append(lines, d.tasks(r, below, func(t *relative) bool { return !shown[t.Step] })...)
}

func (d familyRenderer) tasks(r *relative, indent string, which func(*relative) bool) []string {
	var lines []string
	for _, t := range r.Tasks {
		if which(t) {
			lines = append(lines, d.lines(t, indent)...)
		}
	}
	return lines
}

// head returns the line of a task.
func (d familyRenderer) head(r *relative) string {
	parts := []string{d.state(r.State), d.style.Bold(screen.Escape(r.Name)), d.style.Dim(string(r.ID)), screen.Duration(r.Duration)}
	if r.Agent != "" {
		parts = append(parts, "child "+screen.Escape(r.Agent))
	}
	if r.By != "" {
		parts = append(parts, "by "+screen.Escape(r.By))
	}
	if r.Reason != "" {
		parts = append(parts, screen.Line(r.Reason))
	}
	return strings.Join(parts, "  ")
}

// call returns the line of an agent call.
func (d familyRenderer) call(c agentCall) string {
	parts := []string{d.mark(c.State) + " " + screen.Escape(c.Step)}
	if c.Agent != "" {
		parts = append(parts, screen.Escape(c.Agent))
	} else {
		parts = append(parts, d.style.Warn("no agent yet"))
	}
	if c.Title != "" {
		parts = append(parts, d.style.Dim(screen.Line(c.Title)))
	}
	if c.Duration > 0 {
		parts = append(parts, screen.Duration(c.Duration))
	}
	return strings.Join(parts, "  ")
}

// family builds a tree from a list of tasks.
func (c *readCommands) family(ctx context.Context, s session, reply api.ListReply) (*relative, error) {
	known := map[events.TaskID]*relative{}
	var root *relative
	for _, line := range reply.Tasks {
		t, err := s.Get(ctx, api.GetRequest{ID: line.ID})
		if fault.Has(err, fault.NotFound) || fault.Has(err, fault.Gone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := c.relativeOf(t)
		known[t.ID] = r
		if above := known[t.Parent]; above != nil {
			above.Tasks = append(above.Tasks, r)
		} else if root == nil {
			root = r
		}
	}
	if root == nil {
		return nil, fault.New(fault.NotFound, "the task is not there any more").WithField("ID")
	}
	root.Left = reply.Omitted
	return root, nil
}
