package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
)

func newMCPAccept(c *mcpServerCommands) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "accept [SERVER] [TOOL...]",
		Short: "Show what MCP servers say about their tools by now, and accept it",
		Long: `Show the definitions of tools that wait for somebody: calls of these tools are refused, because the server says
something else about them than it did. With a server, and maybe some of its tools, it asks whether to accept what it
has shown. Read the texts: models read them, and do what they say.`,
		Example: "  orch mcp accept\n  orch mcp accept github create_issue",
		Args:    takes("[SERVER]", "[TOOL...]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.showWaiting(cmd.Context())
			}
			return c.acceptTools(cmd.Context(), args[0], args[1:], yes)
		},
		ValidArgsFunction: c.completeWaiting,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// withDefinitions calls f with an admin for the servers of the node. If no node runs, the admin uses the recorded definitions, and recorded
// is set.
func (c *mcpServerCommands) withDefinitions(ctx context.Context, f func(servers node.Admin, recorded bool) error) error {
	return c.atNode(ctx, func(servers node.Admin) error { return f(servers, false) }, func(error) error {
		return f(node.RecordedAdmin(c.home, c.logger()), true)
	})
}

// isUnaccepted reports whether a tool is blocked until somebody accepts its definition.
func isUnaccepted(d gateway.Definition) bool { return d.Status != gateway.Accepted }

func (c *mcpServerCommands) showWaiting(ctx context.Context) error {
	return c.withDefinitions(ctx, func(servers node.Admin, _ bool) error {
		list, err := servers.Definitions(ctx, "")
		if err != nil {
			return err
		}
		return c.showDefinitions(slices.DeleteFunc(list, func(d gateway.Definition) bool { return !isUnaccepted(d) }), waitingText)
	})
}

func (c *mcpServerCommands) showDefinitions(list []gateway.Definition, text func([]gateway.Definition) string) error {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = screen.Escape(d.Server + "/" + d.Tool)
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
		_, err := io.WriteString(w, screen.EscapeLines(text(list)))
		return err
	}})
}

// waitingText shows each definition, and how it has changed. It escapes the texts, because they come from servers.
func waitingText(list []gateway.Definition) string {
	if len(list) == 0 {
		return "nothing waits\n"
	}
	var b strings.Builder
	for _, d := range list {
		b.WriteString(screen.Escape(d.Server+": "+d.Tool+" is "+string(d.Status)+": "+d.Why) + "\n")
		if d.Diff != "" {
			b.WriteString(strings.TrimSuffix(d.Diff, "\n") + "\n")
		}
	}
	return b.String()
}

// acceptedText lists the status of the definitions.
func acceptedText(list []gateway.Definition) string {
	if len(list) == 0 {
		return "nothing waits\n"
	}
	var b strings.Builder
	for _, d := range list {
		b.WriteString(screen.Escape(d.Server+": "+d.Tool) + " is " + string(d.Status) + "\n")
	}
	return b.String()
}

func (c *mcpServerCommands) acceptTools(ctx context.Context, server string, only []string, yes bool) error {
	return c.withDefinitions(ctx, func(servers node.Admin, recorded bool) error {
		waiting, err := waitingOf(ctx, servers, server, only)
		if err != nil || len(waiting) == 0 {
			if err == nil {
				err = c.showDefinitions(waiting, acceptedText)
			}
			return err
		}
		if err := c.agree(ctx, waiting, yes); err != nil {
			return err
		}
		acceptance := node.Acceptance{Server: server, Tools: map[string]string{}, By: c.actor()}
		for _, d := range waiting {
			acceptance.Tools[d.Tool] = d.SHA256
		}
		var after []gateway.Definition
		accept := func() (err error) {
			after, err = servers.Accept(ctx, acceptance)
			return err
		}
		if recorded { // no node, which would record it
			act := node.NewFileAct("mcp.accept", server, acceptance.Tools)
			err = c.onFiles(ctx, act, accept)
		} else {
			err = accept()
		}
		if err != nil {
			return err
		}
		return c.showDefinitions(after, acceptedText)
	})
}

// waitingOf returns the unaccepted definitions of a server. If only is not empty, it returns only those of the named tools.
func waitingOf(ctx context.Context, servers node.Admin, server string, only []string) ([]gateway.Definition, error) {
	all, err := servers.Definitions(ctx, server)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, "no tool of a server %q was ever seen", server).WithHint("see: orch mcp list")
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Tool
	}
	for _, name := range only {
		if slices.Contains(names, name) {
			continue
		}
		missing := fault.New(fault.NotFound, "the server %s has no tool %q", server, name)
		if near := spell.Nearest(name, names); near != "" {
			return nil, missing.WithHint("did you mean %s?", near)
		}
		return nil, missing.WithHint("see what waits: orch mcp accept")
	}
	return slices.DeleteFunc(all, func(d gateway.Definition) bool {
		return !isUnaccepted(d) || len(only) > 0 && !slices.Contains(only, d.Tool)
	}), nil
}

// agree shows the definitions to be accepted, and asks for confirmation unless yes is set.
func (c *mcpServerCommands) agree(ctx context.Context, waiting []gateway.Definition, yes bool) error {
	text := waitingText(waiting)
	if !yes {
		return c.confirm(ctx, text, "Accept "+screen.Plural(len(waiting), "definition")+"?", "see what waits: orch mcp accept")
	}
	if c.cfg.Output != "text" {
		return nil
	}
	if _, err := io.WriteString(c.err, screen.EscapeLines(text)); err != nil {
		return fault.New(fault.Internal, "showing the definitions: %w", err)
	}
	return nil
}
