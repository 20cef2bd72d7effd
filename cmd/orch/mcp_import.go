package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
)

// importOptions are the flags of `orch mcp import`.
type importOptions struct{ project, replace, dryRun bool }

func newMCPImport(c *mcpServerCommands) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Take over the MCP servers of Claude Code, Cursor, VS Code and the like",
		Long: `Take over the MCP servers of a client: FILE holds a map mcpServers, or servers. Each becomes a definition of its
own in ~/.orch/mcp. What is there already stays, unless --replace is given. The file itself is not changed; it may also
be put into ~/.orch/mcp as it is.`,
		Example: "  orch mcp import ~/.cursor/mcp.json --dry-run",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.importServers(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.project, "project", false, "write to .orch/mcp of this directory")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "replace definitions that are there")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be written")
	return cmd
}

// importReport is the result of an import for each server in the configuration of a client.
type importReport struct {
	Written  []string               `json:"written"`
	DryRun   bool                   `json:"dry_run,omitempty"`
	Skipped  []registry.Skipped     `json:"skipped,omitempty"`
	Notes    []registry.Skipped     `json:"notes,omitempty"`
	Problems []registry.SchemaError `json:"problems,omitempty"`
}

func (c *mcpServerCommands) importServers(ctx context.Context, file string, o importOptions) error {
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.dir, file)
	}
	in, err := registry.Import(file)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.home, ".orch", "mcp")
	if o.project {
		dir = filepath.Join(c.dir, ".orch", "mcp")
	}
	done := importReport{Written: []string{}, DryRun: o.dryRun, Skipped: in.Skipped, Notes: in.Left, Problems: in.Problems}
	write := func() error { return done.write(dir, in.Servers, o) }
	if o.dryRun {
		err = write()
	} else {
		err = c.onFiles(ctx, node.NewFileAct("mcp.import", file, map[string]string{"into": dir}), write)
	}
	if err != nil {
		return err
	}
	shown := c.emit(view{data: done, names: done.Written, text: func(w io.Writer) error { return writeLines(w, done.lines()) }})
	if shown == nil && len(done.Problems) > 0 {
		return &exitError{exit: exitInternal}
	}
	return shown
}

// write writes definitions of servers into a directory.
func (i *importReport) write(dir string, all []registry.MCPConfig, o importOptions) error {
	for _, s := range all {
		path := filepath.Join(dir, s.Name+".json")
		switch err := writeDefinition(path, s, o); {
		case errors.Is(err, fs.ErrExist):
			i.Skipped = append(i.Skipped, registry.Skipped{Name: s.Name, Reason: "it is defined already; see --replace"})
		case err != nil:
			return fault.Wrap(fault.Forbidden, err, "it cannot be written").WithField(path)
		default:
			i.Written = append(i.Written, path)
		}
	}
	return nil
}

// writeDefinition writes a definition, which may contain secrets.
func writeDefinition(path string, s registry.MCPConfig, o importOptions) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if _, err := os.Lstat(path); err == nil {
		if !o.replace {
			return fs.ErrExist
		}
		flags = os.O_WRONLY | os.O_TRUNC
	}
	if o.dryRun {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(s.File())
	return errors.Join(err, f.Close())
}

// lines returns one line for each server.
func (i importReport) lines() []string {
	var lines []string
	verb := "written: "
	if i.DryRun {
		verb = "would write: "
	}
	for _, file := range i.Written {
		lines = append(lines, verb+file)
	}
	for _, s := range i.Skipped {
		lines = append(lines, screen.Escape("skipped: "+s.Name+": "+s.Reason))
	}
	for _, s := range i.Notes {
		lines = append(lines, screen.Escape("look at: "+s.Name+": "+s.Reason))
	}
	lines = append(lines, problemLines(i.Problems)...)
	if len(lines) == 0 {
		return []string{"the file holds no servers"}
	}
	return lines
}
