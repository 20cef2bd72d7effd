package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools/onboarding"
)

// mcpCommands are the commands about MCP: for MCP clients of this program, and for external MCP servers.
type mcpCommands struct {
	clients *mcpClientCommands
	servers *mcpServerCommands
}

// mcpClientCommands are the commands that serve MCP clients, and the commands that add this program to their configurations.
type mcpClientCommands struct{ *connector }

// mcpServerCommands are the commands about external MCP servers.
type mcpServerCommands struct {
	*connector

	tools   *toolset
	defined *definitions
}

func newMCP(c *mcpCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Serve MCP clients, and use MCP servers",
		Example: "  orch mcp install --client claude-code",
		Long:    "Serve MCP clients: every tool call of an agent becomes a durable task, with approvals and an audit log.",
	}
	asGroup(cmd)
	cmd.AddCommand(c.clients.commands()...)
	cmd.AddCommand(c.servers.commands()...)
	return cmd
}

// mcpOptions are the flags of `orch mcp serve`.
type mcpOptions struct {
	tools    []string
	readOnly bool
	profile  string
}

func newMCPServe(c *mcpClientCommands) *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve one MCP client over stdin and stdout",
		Long: `Serve one MCP client over stdin and stdout until stdin ends. Clients start this command themselves.

It uses the node of the data directory, or starts one for as long as the client is there; when a node ends that it
uses, it finds or starts the next one. Calls that are still running then go on when the next node starts. A client that wants to outlive that speaks HTTP to orch serve.`,
		Example: "  orch mcp serve --root ~/project --tools 'FILE_*,GIT_*,orch_*'",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serveMCP(cmd.Context(), o) },
	}
	cmd.Flags().StringSliceVar(&o.tools, "tools", nil, "show only tools with these names or globs")
	cmd.Flags().BoolVar(&o.readOnly, "only-read", false, "show only tools that change nothing")
	cmd.Flags().StringVar(&o.profile, "profile", server.ProfileAll, "which tools the client sees, and in which words: "+strings.Join(server.Profiles(), ", "))
	addSettings(cmd.Flags(), true, true)
	return cmd
}

// serveMCP serves MCP over the streams of the process.
func (c *mcpClientCommands) serveMCP(ctx context.Context, o mcpOptions) error {
	if err := server.CheckProfile(o.profile); err != nil {
		return fault.From(err).WithField("--profile")
	}
	catalogue, err := c.nodes.Tools()
	if err != nil {
		return err
	}
	root, err := pathguard.Open(c.cfg.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	log := c.logger()
	return c.withLasting(ctx, staying, func(s session) error {
		outputs, err := node.OpenOutputs(processNodes{logs: c.err}.config(c.cfg, idle), s)
		if err != nil {
			return err
		}
		defer func() { _ = outputs.Close() }()
		servers := node.NewAdmin(s)
		stopTools := followTools(ctx, servers, catalogue, log)
		defer stopTools()
		outside, stopFeatures := followFeatures(ctx, servers, log)
		defer stopFeatures()
		face, err := server.New(server.Config{
			API: s, Catalogue: catalogue, Local: server.Identity{Name: c.actor(), Role: server.Operator},
			Root: c.cfg.Root, Version: readVersion().Version, Logger: log,
			Stores: server.Stores{
				Outputs: outputs, Outside: outside, Agents: node.NewAgentFiles(root), Inboxes: node.Inboxes{Node: s}, Subscriptions: node.NewSubscriptions(s),
			},
			Hooks: server.Hooks{
				Refused: reporter(ctx, s, log),
				Reveal: func(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage {
					return onboarding.Reveal(ctx, s, task, who, result)
				},
			},
			Limits: server.Limits{SyncWait: c.cfg.MCP.SyncWait},
			Offer: server.Offer{
				Show:    server.Selection{Tools: o.tools, ReadOnly: o.readOnly},
				Profile: o.profile, PortableNames: c.cfg.MCP.PortableNames,
			},
			Consent: server.Consent{Writes: c.cfg.MCP.Writes, OutsideApprovals: c.cfg.MCP.OutsideApprovals},
		})
		if err != nil {
			return err
		}
		defer face.Close()
		return stopped(ctx, face.Serve(ctx, io.NopCloser(c.in), nopWriteCloser{c.out}))
	})
}

// reporter returns a function for calls that the MCP server of this process has refused. It reports such a call to the node.
func reporter(ctx context.Context, s session, log *slog.Logger) func(who, tool string, args json.RawMessage, why error) {
	return func(who, tool string, args json.RawMessage, why error) {
		ctx, stop := context.WithTimeout(ctx, offeredWithin)
		defer stop()
		r := node.Refusal{By: who, Tool: tool, Args: args, Error: fault.From(why)}
		if err := s.Ask(ctx, node.RefusedMethod, r, &struct{}{}); err != nil {
			log.WarnContext(ctx, "refusal_not_reported", slog.String("tool", tool), slog.Any("error", err))
		}
	}
}

// nopWriteCloser is a stream with a Close that does nothing.
type nopWriteCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopWriteCloser) Close() error { return nil }
