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

// offeredWithin is how long a command waits for a node's answer about the tools of external servers.
const offeredWithin = time.Second

// toolset holds the tools that a command may name: those of this program and those of external MCP servers.
type toolset struct {
	*connector

	defined *definitions
	// refused contains why calls of external tools are refused, nil for those that are not. The map is nil until the node was
	// asked.
	refused map[string]*fault.Error
	// unseenHandled is true if servers that were never seen need no connection any more: it was made, or a node makes it.
	unseenHandled bool
}

// catalogue returns the tools of this program and of external servers: those of the running node, else those that were last
// recorded. It asks the node once.
func (ts *toolset) catalogue(ctx context.Context) (*tools.Catalogue, error) {
	c, err := ts.nodes.Tools()
	if err != nil || ts.refused != nil {
		return c, err
	}
	return c, ts.addTools(c, ts.outside(ctx, false))
}

// addTools adds the tools of external servers to the catalogue.
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

// connectUnseen connects to servers that were never seen, if a name may be that of one of their tools.
func (ts *toolset) connectUnseen(ctx context.Context, c *tools.Catalogue, name string) error {
	source, _, outside := strings.Cut(strings.Replace(name, "__", ".", 1), ".")
	if !outside || ts.unseenHandled || source == "" {
		return nil
	}
	ts.unseenHandled = true
	return ts.addTools(c, ts.outside(ctx, true))
}

// outside returns the tools of external servers. It starts no server, unless meet is set and a server was never seen.
func (ts *toolset) outside(ctx context.Context, meet bool) []gateway.Entry {
	asking, stop := context.WithTimeout(ctx, offeredWithin)
	defer stop()
	if s, err := ts.nodes.Dial(asking, ts.cfg); err == nil {
		offered, err := node.NewAdmin(s).Offered(asking, "", 0)
		_ = closeSession(asking, s) // nothing is lost with it
		if err == nil {
			ts.unseenHandled = true // the node has
			return offered.Tools
		}
	}
	if !ts.cfg.MCPEnabled {
		return nil
	}
	recorded, err := node.RecordedTools(ctx, ts.defined.servers(), meet, ts.logger())
	if err != nil {
		return nil
	}
	return recorded
}

// lookUp returns the tool with exactly this name, or server.tool. It asks the node only for tools that this program does not
// have.
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

// tool finds a tool by its name. Tools of this program are also found in lower case.
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
