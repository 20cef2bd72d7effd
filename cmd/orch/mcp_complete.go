package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
)

// completeServers completes the name of an MCP server as the first argument: of the servers that are defined here, and of those
// whose tools the node has. It starts no server.
func (c *mcpServerCommands) completeServers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || c.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := map[string]bool{}
	if r, err := c.defined.newServers(); err == nil {
		defined, _ := r.Defined() // a completion cannot show an error
		for name := range defined {
			names[name] = true
		}
	}
	for _, e := range c.tools.outside(cmd.Context(), false) {
		names[e.Server] = true
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}

// completeWaiting completes servers with unaccepted tools, and then these tools, as they are recorded.
func (c *mcpServerCommands) completeWaiting(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := node.RecordedAdmin(c.home, c.logger()).Definitions(cmd.Context(), "") // a completion cannot show an error
	list = slices.DeleteFunc(list, func(d gateway.Definition) bool { return !waits(d) })
	names := map[string]bool{}
	for _, d := range list {
		switch {
		case len(args) == 0:
			names[d.Server] = true
		case d.Server == args[0] && !slices.Contains(args[1:], d.Tool) && harmless(d.Tool):
			names[d.Tool] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}

// harmless reports whether a name that a server chose may be used in a command line. Some characters are special for shells,
// and a leading hyphen makes a flag.
func harmless(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", r)
	})
}
