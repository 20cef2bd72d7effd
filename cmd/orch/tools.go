package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// toolCommands are the commands that list, show and call tools.
type toolCommands struct {
	*connector

	tools *toolset
	plans *planLoader
	wait  *waiter
}

func newTools(c *toolCommands) *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Short: "List, show and call tools", Example: "  orch tools list"}
	asGroup(cmd)
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tools of this program and of MCP servers",
		Long: `List the tools of this program and, as server__tool, those of MCP servers: of the node that runs here, else those that
were last seen.`,
		Example: "  orch tools list -o name",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listTools(cmd.Context()) },
	}, &cobra.Command{
		Use:               "show NAME",
		Short:             "Show the contract of a tool: purpose, states, approval, inputs, outputs",
		Example:           "  orch tools show FILE_READ --json",
		Args:              takes("NAME"),
		ValidArgsFunction: c.tools.completeTools,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.showTool(cmd.Context(), args[0]) },
	}, newToolsCall(c))
	return cmd
}

// shownTool is the output of `orch tools show`.
type shownTool struct {
	tools.Description

	// Refused is the reason why calls are refused at present; nil if they are not.
	Refused *fault.Error `json:"refused,omitempty"`
}

// toolSummary is one line of the list.
type toolSummary struct {
	Name string `json:"name"`
	// Server is the external MCP server of the tool; empty for tools of this program.
	Server   string         `json:"server,omitempty"`
	Effect   tools.Effect   `json:"effect"`
	Approval tools.Approval `json:"approval"`
	Purpose  string         `json:"purpose"`
}

func (c *toolCommands) listTools(ctx context.Context) error {
	list, err := c.toolSummaries(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
		var table screen.Table
		table.Row("NAME", "EFFECT", "APPROVAL", "PURPOSE")
		for _, t := range list {
			line, _, _ := strings.Cut(t.Purpose, "\n")
			first, _, _ := strings.Cut(line, ". ")
			table.Row(t.Name, string(t.Effect), string(t.Approval), strings.TrimSuffix(first, "."))
		}
		return table.Write(w, c.width())
	}})
}

// toolSummaries returns the tools of this program, followed by the tools of each external MCP server.
func (c *toolCommands) toolSummaries(ctx context.Context) ([]toolSummary, error) {
	catalogue, err := c.tools.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	list := []toolSummary{}
	for _, name := range catalogue.Names() {
		t, ok := catalogue.Get(name)
		if !ok {
			continue
		}
		spec, server := t.Spec(), ""
		if _, outside := c.tools.refused[name]; outside {
			server, _, _ = strings.Cut(name, "__")
		}
		list = append(list, toolSummary{spec.Name, server, spec.Effect, spec.Approval, spec.Purpose})
	}
	slices.SortStableFunc(list, func(x, y toolSummary) int { return strings.Compare(x.Server, y.Server) })
	return list, nil
}

func (c *toolCommands) showTool(ctx context.Context, name string) error {
	t, err := c.tools.tool(ctx, name)
	if err != nil {
		return err
	}
	d := shownTool{tools.Describe(t), c.tools.refused[t.Spec().Name]}
	return c.emit(view{data: d, names: []string{d.Name}, text: func(w io.Writer) error {
		return writeLines(w, toolLines(d))
	}})
}

func toolLines(d shownTool) []string {
	states := make([]string, len(d.States))
	for i, s := range d.States {
		states[i] = string(s)
	}
	allowed := strings.Join(states, ", ")
	if len(states) == len(statemachine.States()) {
		allowed = "any"
	}
	lines := []string{d.Name, "  " + strings.ReplaceAll(screen.EscapeLines(d.Purpose), "\n", "\n  "), "", "effect:   " + string(d.Effect), "approval: " + string(d.Approval), "states:   " + allowed}
	for _, c := range d.Conditions {
		lines = append(lines, "condition: "+screen.Escape(c))
	}
	if d.Refused != nil {
		lines = append(lines, "refused:  "+screen.Escape(d.Refused.Message))
	}
	lines = append(append(lines, "", "inputs:"), propertyLines(d.Inputs)...)
	lines = append(append(lines, "", "outputs:"), propertyLines(d.Outputs)...)
	if len(d.Errors) > 0 {
		lines = append(lines, "", "errors: "+strings.Join(d.Errors, ", "))
	}
	return append(lines, "", "call it: orch tools call "+d.Name+exampleOf(d))
}

// propertyLines lists the properties of a schema in order.
func propertyLines(raw json.RawMessage) []string {
	schema := readSchema(raw)
	required := map[string]bool{}
	for _, name := range schema.Required {
		required[name] = true
	}
	var lines []string
	for _, name := range propertyOrder(raw) {
		p := schema.Properties[name]
		text := fmt.Sprintf("  %-18s %-8s", name, strings.Join(p.Type, "|"))
		switch {
		case len(p.Default) > 0:
			text += " [" + string(p.Default) + "]"
		case required[name]:
			text += " required"
		}
		if p.Description != "" {
			text += "  " + p.Description
		}
		if may := p.choices(); len(may) > 0 {
			text += choices(may)
		}
		lines = append(lines, screen.Escape(strings.TrimRight(text, " ")))
	}
	return lines
}

// exampleOf returns the arguments for an example call of a tool: the arguments of its example, or the required arguments if it
// has no example.
func exampleOf(d shownTool) string {
	fields, ok := screen.Fields(d.Example)
	if !ok || len(fields) == 0 {
		return exampleArgs(d.Inputs)
	}
	var b strings.Builder
	for _, f := range fields {
		var text string
		if json.Unmarshal(f.Value, &text) == nil {
			b.WriteString(" " + quoteWord(f.Name+"="+text))
			continue
		}
		b.WriteString(" " + quoteWord(f.Name+":="+string(f.Value)))
	}
	return b.String()
}

// quoteWord quotes a word for the shell if necessary.
func quoteWord(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(shellSafe, r) }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// shellSafe are the characters without a special meaning for the shell.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=:./,@%+-"

func newToolsCall(c *toolCommands) *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:               "call NAME [name=value...]",
		Short:             "Call a tool once, as a task of its own or inside a task",
		Long:              "Call a tool once, as a task of its own or inside a task. GREP_SEARCH and GLOB_SEARCH without a path search the root;\ninside a task its workspace.",
		Example:           "  orch tools call GREP_SEARCH pattern=TODO path=.",
		Args:              takes("NAME", "[name=value...]"),
		ValidArgsFunction: c.tools.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.callTool(cmd.Context(), args, o)
		},
	}
	cmd.Flags().StringVar(&o.task, "task", "", "call it inside this task, as its state allows")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time, with the exit code 8 (0: never)")
	o.people.add(cmd)
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *toolCommands) callTool(ctx context.Context, args []string, o callOptions) error {
	t, err := c.tools.tool(ctx, args[0])
	if err != nil {
		return err
	}
	start := pathguard.Real(c.cfg.Root)
	if o.task != "" {
		start = "" // it has a workspace with files
	}
	checked, err := c.plans.toolArgs(t, args[1:], start)
	if err != nil {
		return err
	}
	name := t.Spec().Name
	if o.task != "" {
		return c.withTask(ctx, working, o.task, func(s session, id events.TaskID) error {
			defer c.noteLater("waiting for the call; what for: orch explain " + string(id))()
			r, err := s.Call(ctx, api.CallRequest{ID: id, Tool: name, Args: checked, Wait: callWait(o.timeout), Actor: c.actor()})
			if err != nil {
				return err
			}
			return c.wait.showCall(r)
		})
	}
	p, err := plan.FromCall(name, checked)
	if err != nil {
		return err
	}
	return c.with(ctx, working, func(s session) error {
		reply, err := s.Submit(ctx, api.SubmitRequest{Plan: p.JSON(), Actor: c.actor()})
		if err != nil {
			return err
		}
		return c.wait.awaitCall(ctx, s, reply.ID, o)
	})
}
