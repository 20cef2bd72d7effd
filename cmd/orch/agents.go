package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools/onboarding"
)

// agentCommands are the commands about agents.
type agentCommands struct {
	*connector

	wait    *waiter
	submits *submitCommands
}

// agentsOptions are the flags of `orch agents`.
type agentsOptions struct {
	status, kind string
	capabilities []string
}

func newAgents(c *agentCommands) *cobra.Command {
	var o agentsOptions
	cmd := &cobra.Command{
		Use:     "agents",
		Aliases: []string{"agent"},
		Short:   "List, register and run the agents that take work",
		Long: `List the registered agents: what they can do, how they are, and what they have.

  idle     has no calls          active   has some, and takes more
  busy     takes no more         error    has said so, or failed five times in a row
  offline  was not heard of for 90 s`,
		Example: "  orch agents --status idle --capability research\n  orch agents files",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return c.listAgents(cmd.Context(), o)
	}
	o.flags(cmd)
	cmd.AddCommand(newAgentsList(c), newAgentFiles(c), newAgentsRegister(c), newAgentsRemove(c), newAgentRun(c), newAgentsCard(c), newAgentAsk(c), newAgentChat(c), newAgentSay(c), newAgentShow(c))
	return cmd
}

// flags adds the flags to a command.
func (o *agentsOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.status, "status", "", "only agents of this status"+choices(statusNames()))
	f.StringVar(&o.kind, "type", "", "only agents of this type"+choices(agents.Types()))
	f.StringSliceVar(&o.capabilities, "capability", nil, "only agents that have all of these")
	completeFlag(cmd, "status", completeWords(statusNames()))
	completeFlag(cmd, "type", completeWords(agents.Types()))
}

func newAgentsList(c *agentCommands) *cobra.Command {
	var o agentsOptions
	cmd := &cobra.Command{
		Use: "list", Short: "List the registered agents, as orch agents does", Example: "  orch agents list --json", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.listAgents(cmd.Context(), o) },
	}
	o.flags(cmd)
	return cmd
}

func statusNames() []string {
	return []string{string(agents.Active), string(agents.Idle), string(agents.Busy), string(agents.Offline), string(agents.Error)}
}

func (c *agentCommands) listAgents(ctx context.Context, o agentsOptions) error {
	if o.status != "" {
		if err := oneOf("--status", o.status, statusNames()); err != nil {
			return err
		}
	}
	return c.with(ctx, idle, func(s session) error {
		all, err := s.Agents(ctx)
		if err != nil {
			return err
		}
		if s.Embedded() && len(all) > 0 {
			c.note("no node runs here, so nobody hears of the agents and all are offline; start one with: orch serve")
		}
		return c.showAgents(slices.DeleteFunc(all, func(v agents.View) bool { return !o.selects(v) }))
	})
}

func (o agentsOptions) selects(v agents.View) bool {
	if o.status != "" && o.status != string(v.Status) || o.kind != "" && o.kind != v.Type {
		return false
	}
	return !slices.ContainsFunc(o.capabilities, func(c string) bool { return !slices.Contains(v.CapabilityNames(), c) })
}

func (c *agentCommands) showAgents(list []agents.View) error {
	v := view{data: list, rows: rowsOf(list), text: func(w io.Writer) error {
		if len(list) == 0 {
			c.note("no registered agents; those of files are in: orch agents files")
			return nil
		}
		var table screen.Table
		head := []string{"NAME", "TYPE", "STATUS", "CALLS", "SEEN", "DONE", "BY", "CAPABILITIES", "HAS"}
		bound := slices.ContainsFunc(list, func(v agents.View) bool { return v.For != "" })
		if bound {
			head = append(head, "WORKS FOR")
		}
		table.Row(head...)
		for _, g := range list {
			seen := "-"
			if !g.LastSeen.IsZero() {
				seen = screen.Age(c.now(), g.LastSeen)
			}
			row := []string{
				g.Name, g.Type, string(g.Status), strconv.Itoa(g.Current) + "/" + strconv.Itoa(g.MaxTasks), seen,
				strconv.Itoa(g.Record.Completed), g.RegisteredBy, strings.Join(g.CapabilityNames(), ","), runningText(g),
			}
			if bound {
				row = append(row, cmp.Or(g.For, "all"))
			}
			table.Row(row...)
		}
		return table.Write(w, c.width())
	}}
	for _, g := range list {
		v.names = append(v.names, g.Name)
	}
	return c.emit(v)
}

// runningText names the oldest running call of an agent, followed by the number of its other calls, such as "+2".
func runningText(g agents.View) string {
	if len(g.Calls) == 0 {
		return "-"
	}
	first := g.Calls[0]
	text := string(first.Task) + " " + first.Step
	if first.Ending {
		text += " (ending)"
	}
	if more := len(g.Calls) - 1; more > 0 {
		text += " +" + strconv.Itoa(more)
	}
	return text
}

func newAgentsRegister(c *agentCommands) *cobra.Command {
	var o registerOptions
	cmd := &cobra.Command{
		Use:   "register NAME",
		Short: "Register an agent and show its credential, once",
		Long: `Register an agent and show its credential, which nobody can show again: it is good for 24 hours, and the agent
renews it. The call of onboarding.registerAgent is in the log, without the secret.`,
		Example: "  orch agents register ada --type researcher --capability research --capability cite:writing",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args[0], "NAME"); err != nil {
				return err
			}
			return c.with(cmd.Context(), working, func(s session) error {
				cred, err := c.register(cmd.Context(), s, args[0], o)
				if err != nil {
					return err
				}
				return c.emit(view{data: cred, names: []string{cred.Secret}, text: func(w io.Writer) error {
					c.note("%s is registered as %s until %s; its secret is shown only now:", cred.Name, cred.Agent, cred.ExpiresAt.Format(time.RFC3339))
					return writeLines(w, []string{cred.Secret})
				}})
			})
		},
	}
	o.flags(cmd)
	addSettings(cmd.Flags(), true, true)
	return cmd
}

// request returns the input of onboarding.registerAgent.
func (o registerOptions) request(name string) (json.RawMessage, error) {
	type object = map[string]any
	info := object{"name": name, "type": o.kind, "version": o.version}
	if o.description != "" {
		info["description"] = o.description
	}
	capabilities, err := o.parseCapabilities()
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{"agentInfo": info, "capabilities": capabilities, "configuration": object{
		"maxConcurrentTasks": o.maxTasks, "timeout": o.timeout.Milliseconds(), "retryPolicy": object{"maxRetries": o.retries},
	}})
}

// register registers an agent with a call of onboarding.registerAgent, and retrieves the secret of its credential.
func (c *agentCommands) register(ctx context.Context, s session, name string, o registerOptions) (peer.Credential, error) {
	args, err := o.request(name)
	if err != nil {
		return peer.Credential{}, err
	}
	id, err := c.callOnce(ctx, s, onboarding.RegisterAgent, args)
	if err != nil {
		return peer.Credential{}, err
	}
	all, err := s.Agents(ctx)
	if err != nil {
		return peer.Credential{}, err
	}
	i := slices.IndexFunc(all, func(v agents.View) bool { return v.Name == name })
	if i < 0 {
		return peer.Credential{}, fault.New(fault.NotFound, "the agent %s was removed meanwhile", name)
	}
	m := all[i]
	got, err := s.Collect(ctx, agents.Collection{Task: id, Agent: m.ID, By: c.actor()})
	if err != nil {
		return peer.Credential{}, err
	}
	return peer.Credential{
		URL: m.URL, Agent: m.ID, Name: m.Name, MaxTasks: m.MaxTasks, Secret: got.Secret, IssuedAt: m.RegisteredAt, ExpiresAt: m.ExpiresAt,
	}, nil
}

// callOnce calls a tool in a new task and waits for its end.
func (c *agentCommands) callOnce(ctx context.Context, s session, tool string, args json.RawMessage) (id events.TaskID, err error) {
	p, err := plan.FromCall(tool, args)
	if err != nil {
		return "", err
	}
	reply, err := s.Submit(ctx, api.SubmitRequest{Plan: p.JSON(), Actor: c.actor()})
	if err != nil {
		return "", err
	}
	f := c.wait.follower(s, reply.ID, 0)
	defer f.release(ctx, s)
	if _, err := c.wait.followTask(ctx, f, time.Minute, newWaitDisplay(c.env), true); err != nil {
		return "", err
	}
	r, err := f.session.Result(ctx, api.ResultRequest{ID: reply.ID})
	switch {
	case err != nil:
		return "", err
	case r.State != statemachine.Done && r.Error != nil:
		return "", r.Error
	case r.State != statemachine.Done:
		return "", fault.New(fault.Conflict, "the task %s is %s", reply.ID, r.State)
	}
	return reply.ID, nil
}

func newAgentsRemove(c *agentCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME|ID",
		Short: "Refuse an agent from now on",
		Long: `Refuse an agent from now on. A call that it has goes to another agent when its lease is over; one that may have
changed something is in doubt then.`,
		Example: "  orch agents remove ada",
		Args:    takes("NAME|ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				m, err := s.Remove(cmd.Context(), agents.Removal{Agent: args[0], By: c.actor()})
				if err != nil {
					return err
				}
				return c.emit(view{data: m, names: []string{m.Name}, text: func(w io.Writer) error {
					return writeLines(w, []string{screen.Escape(m.Name) + " (" + m.ID + ") is removed"})
				}})
			})
		},
	}
}
