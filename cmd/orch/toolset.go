package main

import (
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// offeredWithin is how long a command waits for the answer of a node about the tools of external MCP servers.
const offeredWithin = time.Second

// toolset provides the tools that a command may name: the tools of this program and of external MCP servers.
type toolset struct {
	*connector

	defined *definitions
	// refused maps the name of each external tool to the reason why calls are refused; nil if they are not. The map itself is nil
	// until the external tools are known.
	refused map[string]*fault.Error
	// unseenHandled is set when servers without a record have been connected, by this command or by a node.
	unseenHandled bool
}

// catalogue returns the tools of this program and of external MCP servers. The external tools are those of the running node, or
// the last recorded ones if no node runs. Only the first call asks the node.
func (ts *toolset) catalogue(ctx context.Context) (*tools.Catalogue, error) {
	c, err := ts.nodes.Tools()
	if err != nil || ts.refused != nil {
		return c, err
	}
	return c, ts.addTools(c, ts.outside(ctx, false))
}

// addTools adds the tools of external MCP servers to the catalogue.
func (ts *toolset) addTools(c *tools.Catalogue, entries []gateway.Entry) error {
	ts.refused = map[string]*fault.Error{}
	outside, err := node.Mirrors(entries)
	if err == nil {
		err = c.Offer(outside)
	}
	if err != nil {
		ts.note("the tools of MCP servers are left out: %s", fault.From(err).Message)
		return nil
	}
	for _, e := range entries {
		ts.refused[e.Spec.Name] = e.Refused
	}
	return nil
}

// connectUnseen connects to servers without a record, if name may be the name of one of their tools.
func (ts *toolset) connectUnseen(ctx context.Context, c *tools.Catalogue, name string) error {
	source, _, outside := strings.Cut(strings.Replace(name, "__", ".", 1), ".")
	if !outside || ts.unseenHandled || source == "" {
		return nil
	}
	ts.unseenHandled = true
	return ts.addTools(c, ts.outside(ctx, true))
}

// outside returns the tools of external MCP servers. If connectNew is set and no node runs, it starts the servers without a
// record. It starts no other servers.
func (ts *toolset) outside(ctx context.Context, connectNew bool) []gateway.Entry {
	asking, stop := context.WithTimeout(ctx, offeredWithin)
	defer stop()
	if s, err := ts.nodes.Dial(asking, ts.cfg); err == nil {
		offered, err := node.NewAdmin(s).Offered(asking, "", 0)
		_ = closeSession(asking, s) // the answer has been received
		if err == nil {
			ts.unseenHandled = true // the node connects to all servers
			return offered.Tools
		}
	}
	if !ts.cfg.MCP.MCPEnabled {
		return nil
	}
	recorded, err := node.RecordedTools(ctx, ts.defined.servers(), connectNew, ts.logger())
	if err != nil {
		return nil
	}
	return recorded
}

// lookUp returns the tool with exactly this name, which may have the form server.tool. It asks the node only if this program does
// not have the tool.
func (ts *toolset) lookUp(ctx context.Context, name string) (tools.Tool, bool) {
	own, err := ts.nodes.Tools()
	if err != nil {
		return nil, false
	}
	if t, ok := own.Get(name); ok {
		return t, true
	}
	all, err := ts.catalogue(ctx)
	if err != nil {
		return nil, false
	}
	if t, ok := all.Get(name); ok || ts.connectUnseen(ctx, all, name) != nil {
		return t, ok
	}
	return all.Get(name)
}

// tool finds a tool by its name. For tools of this program, the name may be in lower case.
func (ts *toolset) tool(ctx context.Context, name string) (tools.Tool, error) {
	own, err := ts.nodes.Tools()
	if err != nil {
		return nil, err
	}
	if t, ok := own.Get(strings.ToUpper(name)); ok {
		return t, nil
	}
	if t, ok := ts.lookUp(ctx, name); ok {
		return t, nil
	}
	catalogue, err := ts.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	missing := fault.New(fault.NotFound, "there is no tool %q", name)
	if behind := server.Behind(server.ProfileCoding, name); behind != "" {
		return nil, missing.WithHint("the profile %s calls %s so", server.ProfileCoding, behind)
	}
	if near := catalogue.Suggest(name); near != "" {
		return nil, missing.WithHint("did you mean %s?", near)
	}
	if strings.Contains(name, "__") || strings.Contains(name, ".") {
		return nil, missing.WithHint("see: orch tools list, orch mcp list")
	}
	return nil, missing.WithHint("see: orch tools list")
}
