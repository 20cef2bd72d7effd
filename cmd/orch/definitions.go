package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
)

// definitions finds the MCP servers that are defined in files of this machine.
type definitions struct {
	*env

	// project is the flag --project of the commands about MCP servers.
	project bool
}

// servers returns the configuration of MCP servers without a node.
func (d *definitions) servers() node.Servers {
	s := node.Servers{Home: d.home, Workspace: d.cfg.Root, Getenv: d.getenv, Still: true}
	if d.project || d.cfg.MCP.MCPProject {
		s.Dir = d.dir
	}
	return s
}

// newServers returns a registry of the defined servers. It is not started.
func (d *definitions) newServers() (*registry.Registry, error) {
	s := d.servers()
	return registry.New(registry.Config{Dir: cmp.Or(s.Dir, s.Home), Home: s.Home, Workspace: s.Workspace, Getenv: s.Getenv, Still: s.Still, Logger: d.logger()})
}

// definitionFiles lists the files of all directories.
func (d *definitions) definitionFiles(s node.Servers) ([]string, error) {
	dirs, err := registry.Directories(cmp.Or(s.Dir, s.Home), s.Home, d.getenv)
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

// escapeGlob escapes a path, so that as a glob pattern it matches itself only.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
