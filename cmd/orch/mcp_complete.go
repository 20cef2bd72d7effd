package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
)

// completeServers completes the name of an external MCP server as the first argument. The names are those of the servers that
// are defined on this machine, and of the servers whose tools the node offers. It starts no server.
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

// completeWaiting completes the first argument with servers that have unaccepted tools, and further arguments with these tools.
// It reads the recorded definitions.
func (c *mcpServerCommands) completeWaiting(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := node.RecordedAdmin(c.home, c.logger()).Definitions(cmd.Context(), "") // a completion cannot show an error
	list = slices.DeleteFunc(list, func(d gateway.Definition) bool { return !isUnaccepted(d) })
	names := map[string]bool{}
	for _, d := range list {
		switch {
		case len(args) == 0:
			names[d.Server] = true
		case d.Server == args[0] && !slices.Contains(args[1:], d.Tool) && safeWord(d.Tool):
			names[d.Tool] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}

// safeWord reports whether a name that a server chose can be completed without quoting: it contains no special characters of the
// shell and does not look like a flag.
func safeWord(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", r)
	})
}
