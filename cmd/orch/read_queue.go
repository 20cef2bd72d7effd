package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// queueOptions are the flags of `orch queue`.
type queueOptions struct {
	priority, status, agent, kind string
	capabilities                  []string
	limit                         int
}

// anyAgentName is a name that no agent has. A request with it selects tasks by role or capabilities alone.
const anyAgentName = "*"

func newQueue(c *readCommands) *cobra.Command {
	var o queueOptions
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show the open tasks: what waits, for what, since when, and who has it",
		Long: `Show the open tasks, the most urgent first, then the oldest: what each waits for, since when, and which agent has it. With --agent,
--type or --capability only those that such an agent has, or may take.`,
		Example: "  orch queue --capability build --status pending",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.queue(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.priority, "priority", "", "only tasks of the priority"+choices(priorityNames()))
	f.StringVar(&o.status, "status", "", "only tasks of the status"+choices(queueStatuses()))
	f.StringVar(&o.agent, "agent", "", "only tasks that the agent of the name has, or may take")
	f.StringVar(&o.kind, "type", "", "the role of that agent")
	f.StringSliceVar(&o.capabilities, "capability", nil, "what that agent can do (repeatable)")
	f.IntVar(&o.limit, "limit", 20, "tasks to show, 1 to 100")
	completeFlag(cmd, "priority", completeWords(priorityNames()))
	completeFlag(cmd, "status", completeWords(queueStatuses()))
	return cmd
}

func priorityNames() []string { return []string{"critical", "high", "normal", "low"} }

func queueStatuses() []string {
	return []string{api.QueuePending, api.QueueAssigned, api.QueueInProgress, api.QueueBlocked}
}

func (o queueOptions) request() (api.QueueRequest, error) {
	r := api.QueueRequest{
		Agent: o.agent, AgentType: o.kind, Capabilities: o.capabilities, Priority: o.priority, Status: o.status, IncludeAssigned: true, Limit: o.limit,
	}
	if o.limit < 1 || o.limit > 100 {
		return r, fault.New(fault.ValidationError, "%d is not between 1 and 100", o.limit).WithField("--limit")
	}
	for _, c := range []struct {
		flag, value string
		known       []string
	}{{"--priority", o.priority, priorityNames()}, {"--status", o.status, queueStatuses()}} {
		if c.value == "" {
			continue
		}
		if err := oneOf(c.flag, c.value, c.known); err != nil {
			return r, err
		}
	}
	if r.Agent == "" && (r.AgentType != "" || len(r.Capabilities) > 0) {
		r.Agent = anyAgentName
	}
	return r, nil
}

func (c *readCommands) queue(ctx context.Context, o queueOptions) error {
	r, err := o.request()
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		reply, err := s.Queue(ctx, r)
		if err != nil {
			return err
		}
		return c.showQueue(reply)
	})
}

func (c *readCommands) showQueue(reply api.QueueReply) error {
	v := view{data: reply, rows: rowsOf(reply.Tasks)}
	for _, t := range reply.Tasks {
		v.names = append(v.names, string(t.ID))
	}
	v.text = func(w io.Writer) error {
		st := reply.Stats
		c.note("%s open: %d pending, %d assigned, %d in progress, %d blocked; those pending wait for %s on average",
			screen.Plural(st.Total, "task"), st.Pending, st.Assigned, st.InProgress, st.Blocked, screen.Duration(st.Wait.Round(time.Second)))
		if len(reply.Tasks) == 0 {
			return nil
		}
		var table screen.Table
		table.Row("ID", "NAME", "PRIORITY", "STATUS", "AGE", "AGENT", "REQUIRES", "WAITS FOR")
		for _, t := range reply.Tasks {
			table.Row(string(t.ID), screen.Clip(t.Name, 40), t.Priority, t.Status, screen.Age(c.now(), t.CreatedAt), textOrDash(t.AssignedTo),
				textOrDash(strings.Join(t.Requires, ",")), screen.Line(t.Reason))
		}
		return table.Write(w, c.width())
	}
	return c.emit(v)
}

func textOrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
