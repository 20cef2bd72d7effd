package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

// newMCPServers returns the commands about the MCP servers of others. Those that start servers start the ones of the
// project only when they are told to: its files name programs that somebody else may have chosen.
func newMCPServers(a *app) []*cobra.Command {
	starting := []*cobra.Command{newMCPList(a), newMCPTest(a), newMCPSwitch(a, true), newMCPSwitch(a, false)}
	for _, cmd := range starting {
		cmd.Flags().BoolVar(&a.project, "project", false, "also the servers of ./.orch/mcp, which start programs that the project names")
	}
	return append(starting, newMCPValidate(a), newMCPImport(a))
}

// withServers starts the servers that are defined, for as long as f runs. None is not an error.
func (a *app) withServers(ctx context.Context, f func(*registry.Registry) error) error {
	r, err := a.newServers()
	if err != nil {
		return err
	}
	const goodbye = 5 * time.Second
	defer func() { _ = r.Close(context.WithoutCancel(ctx), goodbye) }() // nothing is in flight
	if _, err := r.Init(ctx); err != nil && !errors.Is(err, registry.ErrNoConfigDirs) {
		return err
	}
	return f(r)
}

func (a *app) newServers() (*registry.Registry, error) {
	dir := a.home
	if a.project {
		dir = a.dir
	}
	return registry.New(registry.Config{
		Dir: dir, Home: a.home, Getenv: a.getenv, Still: true, Logger: processNodes{logs: a.err}.logger(a.cfg.LogLevel),
	})
}

func newMCPList(a *app) *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the MCP servers that are defined, and how they are",
		Long: `List the MCP servers that are defined in ~/.orch/mcp and the directories of ORCH_MCP_PATH, and with --project those in
./.orch/mcp, which go first. Each enabled server is connected to, which takes up to 5 s.`,
		Example: "  orch mcp list --status degraded",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listServers(cmd.Context(), status) },
	}
	cmd.Flags().StringVar(&status, "status", "", "only servers with this status"+choices(serverStates()))
	return cmd
}

func serverStates() []string {
	return []string{string(registry.Ready), string(registry.Degraded), string(registry.Offline)}
}

func (a *app) listServers(ctx context.Context, status string) error {
	if status != "" {
		if err := oneOf("--status", status, serverStates()); err != nil {
			return err
		}
	}
	return a.withServers(ctx, func(r *registry.Registry) error {
		all, err := r.List(ctx)
		if err != nil {
			return err
		}
		list, names := []registry.MCPTool{}, []string{}
		for _, s := range all {
			if status == "" || string(s.Status) == status {
				list, names = append(list, s), append(names, s.Name)
			}
		}
		return a.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error { return a.serverTable(w, list) }})
	})
}

func (a *app) serverTable(w io.Writer, list []registry.MCPTool) error {
	var table screen.Table
	table.Row("NAME", "STATUS", "TOOLS", "LATENCY", "SOURCE", "ERROR")
	for _, s := range list {
		latency := "-"
		if s.Metrics.HandshakeLatency > 0 {
			latency = screen.Duration(s.Metrics.HandshakeLatency)
		}
		state := string(s.Status)
		if !s.Enabled {
			state += " (disabled)"
		}
		table.Row(s.Name, state, strconv.Itoa(s.Tools), latency, s.Source, s.LastError)
	}
	return table.Write(w, a.width())
}

func newMCPTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "test NAME",
		Short:   "Connect to an MCP server and show each step, what it offers and what it complains about",
		Example: "  orch mcp test github",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.testServer(cmd.Context(), args[0]) },
	}
}

func (a *app) testServer(ctx context.Context, name string) error {
	return a.withServers(ctx, func(r *registry.Registry) error {
		report, err := r.Test(ctx, name)
		if err != nil && report.Tool == "" {
			return err
		}
		shown := a.emit(view{data: report, names: []string{report.Tool}, text: func(w io.Writer) error {
			return writeLines(w, reportLines(report))
		}})
		return errors.Join(shown, err)
	})
}

// reportLines show what a test found.
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

func newMCPSwitch(a *app, on bool) *cobra.Command {
	use, short := "disable", "Do not use an MCP server any more, here and in nodes that run"
	if on {
		use, short = "enable", "Use an MCP server again"
	}
	return &cobra.Command{
		Use:     use + " NAME",
		Short:   short,
		Example: "  orch mcp " + use + " github",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.switchServer(cmd.Context(), args[0], on) },
	}
}

func (a *app) switchServer(ctx context.Context, name string, on bool) error {
	return a.withServers(ctx, func(r *registry.Registry) error {
		change := r.Disable
		if on {
			change = r.Enable
		}
		if err := change(ctx, name); err != nil {
			return err
		}
		s, err := r.Get(ctx, name)
		if err != nil {
			return err
		}
		return a.emit(view{data: s, names: []string{s.Name}, text: func(w io.Writer) error {
			line := s.Name + " is " + string(s.Status)
			if s.LastError != "" {
				line += ": " + screen.Escape(s.LastError)
			}
			return writeLines(w, []string{line})
		}})
	})
}

func newMCPValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Check definitions of MCP servers",
		Long: `Check definitions of MCP servers, or the files of MCP clients, and show everything that is wrong with file, line,
column and property. Without a file it checks all that are found. It ends with 1 when something is wrong.`,
		Example: "  orch mcp validate .orch/mcp/github.json",
		Args:    takes("[FILE...]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.validateServers(cmd.Context(), args) },
	}
}

func (a *app) validateServers(ctx context.Context, files []string) error {
	r, err := a.newServers()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		if files, err = a.definitionFiles(); err != nil {
			return err
		}
	}
	for i, file := range files {
		if !filepath.IsAbs(file) {
			files[i] = filepath.Join(a.dir, file)
		}
	}
	problems, unread := r.Validate(ctx, files...)
	shown := a.emit(view{data: problems, rows: rowsOf(problems), names: problemFiles(problems), text: func(w io.Writer) error {
		return writeLines(w, problemLines(problems))
	}})
	switch {
	case shown != nil:
		return shown
	case unread != nil:
		return &exitError{exit: exitInternal, err: firstOf(unread)}
	case len(problems) > 0:
		return &exitError{exit: exitInternal}
	}
	return nil
}

// firstOf tells the first of several errors that are joined; the others are of the same kind.
func firstOf(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

// definitionFiles lists the files of all directories.
func (a *app) definitionFiles() ([]string, error) {
	dirs, err := registry.Directories(a.dir, a.home, a.getenv)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.json"))
		if err != nil {
			return nil, fault.New(fault.Internal, "listing %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	return files, nil
}

// escapeGlob makes a path match itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
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
