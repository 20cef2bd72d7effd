package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
)

// newMCPServers returns the commands about external MCP servers. These commands start the servers of a project only on request,
// because the files of a project may name programs that somebody else has chosen.
func newMCPServers(c *mcpServerCommands) []*cobra.Command {
	starting := []*cobra.Command{newMCPList(c), newMCPTest(c), newMCPSwitch(c, true), newMCPSwitch(c, false)}
	for _, cmd := range starting {
		cmd.Flags().BoolVar(&c.defined.project, "project", false, "start the servers here, also those of ./.orch/mcp, which start programs that the project names")
	}
	return append(starting, newMCPReload(c), newMCPAccept(c), newMCPValidate(c), newMCPImport(c))
}

// withServers calls f with an admin for the servers of the node. If no node runs, or if the servers of the project are requested,
// the admin uses the defined servers, which run only during the call.
func (c *mcpServerCommands) withServers(ctx context.Context, f func(node.Admin) error) error {
	alone := func(error) error {
		s, err := node.NewStandaloneAdmin(c.defined.servers(), c.logger())
		if err != nil {
			return err
		}
		defer s.Close(ctx)
		return f(s.Admin)
	}
	if c.defined.project {
		return alone(nil)
	}
	return c.atNode(ctx, f, alone)
}

func newMCPList(c *mcpServerCommands) *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the MCP servers that are defined, and how they are",
		Long: `List the MCP servers of the node that runs here: how they are, how many tools they have and how many of those wait for
orch mcp accept, and the calls since it was started. The latency is the mean of the last 100 calls, that of connecting
when there were none.

Without a node the servers are started for this command, which takes up to 5 s: those that are defined in ~/.orch/mcp
and the directories of ORCH_MCP_PATH, and with --project those in ./.orch/mcp, which go first.`,
		Example: "  orch mcp list --status degraded",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listServers(cmd.Context(), status) },
	}
	cmd.Flags().StringVar(&status, "status", "", "only servers with this status"+choices(serverStates()))
	completeFlag(cmd, "status", completeWords(serverStates()))
	return cmd
}

func serverStates() []string {
	return []string{string(registry.Ready), string(registry.Degraded), string(registry.Offline)}
}

func (c *mcpServerCommands) listServers(ctx context.Context, status string) error {
	if status != "" {
		if err := oneOf("--status", status, serverStates()); err != nil {
			return err
		}
	}
	return c.withServers(ctx, func(servers node.Admin) error {
		all, err := servers.List(ctx)
		if err != nil {
			return err
		}
		return c.showServers(slices.DeleteFunc(all, func(s node.Server) bool { return status != "" && string(s.Status) != status }))
	})
}

func (c *mcpServerCommands) showServers(list []node.Server) error {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error { return c.serverTable(w, list) }})
}

func (c *mcpServerCommands) serverTable(w io.Writer, list []node.Server) error {
	var table screen.Table
	table.Row("NAME", "STATUS", "TOOLS", "CALLS", "ERRORS", "LATENCY", "SOURCE", "ERROR")
	for _, s := range list {
		state := string(s.Status)
		if !s.Enabled {
			state += " (disabled)"
		}
		count := strconv.Itoa(s.Tools)
		if s.Blocked > 0 {
			count += " (" + strconv.Itoa(s.Blocked) + " blocked)"
		}
		table.Row(s.Name, state, count, strconv.FormatInt(s.Metrics.Invocations, 10), strconv.FormatInt(s.Metrics.Errors, 10),
			latency(s.Metrics), s.Source, s.LastError)
	}
	return table.Write(w, c.width())
}

// latency returns the latency of calls. If there were no calls, it returns the time to connect.
func latency(m registry.Metrics) string {
	if d := cmp.Or(m.AverageLatency, m.HandshakeLatency); d > 0 {
		return screen.Duration(d)
	}
	return "-"
}

func newMCPTest(c *mcpServerCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "test NAME",
		Short:   "Connect to an MCP server and show each step, what it offers and what it complains about",
		Example: "  orch mcp test github",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.testServer(cmd.Context(), args[0]) },

		ValidArgsFunction: c.completeServers,
	}
}

func (c *mcpServerCommands) testServer(ctx context.Context, name string) error {
	return c.withServers(ctx, func(servers node.Admin) error {
		report, err := servers.Test(ctx, name)
		if err != nil && report.Tool == "" {
			return err
		}
		shown := c.emit(view{data: report, names: []string{report.Tool}, text: func(w io.Writer) error {
			return writeLines(w, reportLines(report))
		}})
		return errors.Join(shown, err)
	})
}

// reportLines shows the result of a test.
func reportLines(r registry.MCPHealthReport) []string {
	lines := []string{r.Tool + ": " + string(r.Status)}
	for _, s := range r.Stages {
		line := fmt.Sprintf("  %-11s %s", s.Name, screen.Duration(s.Duration))
		if s.Error != "" {
			line += "  " + s.Error
		}
		lines = append(lines, line)
	}
	if r.Handshake {
		lines = append(lines,
			"server:       "+screen.Escape(r.Server)+", protocol "+screen.Escape(r.ProtocolVersion),
			"capabilities: "+strings.Join(r.Capabilities, ", "),
			"tools:        "+screen.Escape(strings.Join(r.Tools, ", ")))
	}
	if r.LastError != "" {
		lines = append(lines, "error:        "+screen.Escape(r.LastError))
	}
	if r.Stderr != "" {
		lines = append(lines, "stderr:", strings.TrimSuffix(screen.EscapeLines(r.Stderr), "\n"))
	}
	return lines
}

func newMCPSwitch(c *mcpServerCommands, on bool) *cobra.Command {
	use, short := "disable", "Do not use an MCP server any more, here and in nodes that run"
	if on {
		use, short = "enable", "Use an MCP server again"
	}
	return &cobra.Command{
		Use:     use + " NAME",
		Short:   short,
		Example: "  orch mcp " + use + " github",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.switchServer(cmd.Context(), args[0], on) },

		ValidArgsFunction: c.completeServers,
	}
}

func (c *mcpServerCommands) switchServer(ctx context.Context, name string, on bool) error {
	return c.withServers(ctx, func(servers node.Admin) error {
		change := servers.Disable
		if on {
			change = servers.Enable
		}
		s, err := change(ctx, name)
		if err != nil {
			return err
		}
		return c.emit(view{data: s, names: []string{s.Name}, text: func(w io.Writer) error {
			return writeLines(w, []string{serverState(s)})
		}})
	})
}

// serverState describes the state of a server in one line.
func serverState(s node.Server) string {
	line := s.Name + " is " + string(s.Status)
	if s.LastError != "" {
		line += ": " + screen.Escape(s.LastError)
	}
	return line
}

func newMCPReload(c *mcpServerCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Let the node read the definitions of MCP servers again",
		Long: `Let the node that runs here read the definitions of MCP servers again. It does so by itself when a file changes, where
the system tells of that. Calls in flight end as they would have.`,
		Example: "  orch mcp reload",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.reloadServers(cmd.Context()) },
	}
}

func (c *mcpServerCommands) reloadServers(ctx context.Context) error {
	return c.atNode(ctx, func(servers node.Admin) error {
		r, err := servers.Reload(ctx)
		if err != nil {
			return err
		}
		names := make([]string, len(r.Servers))
		lines := []string{screen.Plural(r.Count, "server") + " reloaded"}
		for i, s := range r.Servers {
			names[i] = s.Name
			lines = append(lines, serverState(s))
		}
		return c.emit(view{data: r, rows: rowsOf(r.Servers), names: names, text: func(w io.Writer) error { return writeLines(w, lines) }})
	}, func(err error) error { return err })
}

func newMCPValidate(c *mcpServerCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Check definitions of MCP servers",
		Long: `Check definitions of MCP servers, or the files of MCP clients, and show everything that is wrong with file, line,
column and property. Without a file it checks all that are found. It ends with 1 when something is wrong.`,
		Example: "  orch mcp validate .orch/mcp/github.json",
		Args:    takes("[FILE...]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.validateServers(cmd.Context(), args) },
	}
}

func (c *mcpServerCommands) validateServers(ctx context.Context, files []string) error {
	r, err := c.defined.newServers()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		if files, err = c.defined.definitionFiles(node.Servers{Dir: c.dir, Home: c.home}); err != nil {
			return err
		}
	}
	for i, file := range files {
		if !filepath.IsAbs(file) {
			files[i] = filepath.Join(c.dir, file)
		}
	}
	problems, unread := r.Validate(ctx, files...)
	shown := c.emit(view{data: problems, rows: rowsOf(problems), names: problemFiles(problems), text: func(w io.Writer) error {
		if len(problems) == 0 && unread == nil {
			return writeLines(w, []string{screen.Plural(len(files), "file") + ", nothing is wrong"})
		}
		return writeLines(w, problemLines(problems))
	}})
	switch {
	case shown != nil:
		return shown
	case unread != nil:
		return &exitError{exit: exitInternal, err: firstError(unread)}
	case len(problems) > 0:
		return &exitError{exit: exitInternal}
	}
	return nil
}

// firstError returns the first of several joined errors. The others are of the same kind.
func firstError(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

func problemLines(problems []registry.SchemaError) []string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = screen.Escape(fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Path, p.Message))
	}
	return lines
}

func problemFiles(problems []registry.SchemaError) []string {
	names := []string{}
	for _, p := range problems {
		if len(names) == 0 || names[len(names)-1] != p.File {
			names = append(names, p.File)
		}
	}
	return names
}
