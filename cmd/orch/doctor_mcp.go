package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
)

// probeServers checks the definitions of external MCP servers, and the state of the node's servers. If no node runs, it does not
// start servers.
func (c *doctorCommands) probeServers(ctx context.Context) []finding {
	const part = "mcp servers"
	if !c.cfg.MCP.MCPEnabled {
		return []finding{fine(part, "they are switched off (mcp_enabled)")}
	}
	var list []node.Server
	err := c.atNode(ctx, func(servers node.Admin) (err error) {
		list, err = servers.List(ctx)
		return err
	}, func(error) error { return nil })
	switch {
	case fault.Has(err, fault.ToolDisabled):
		return []finding{fine(part, "the node uses none (mcp_enabled)")}
	case err != nil:
		return []finding{failed(part, err, "see the log of the node")}
	}
	definitions := c.probeDefinitions(ctx)
	switch {
	case list == nil:
		return []finding{definitions}
	case !definitions.OK:
		return []finding{definitions, serverFinding(list)}
	default:
		return []finding{serverFinding(list)}
	}
}

// probeDefinitions checks the definition files that a node on this machine would read.
func (c *doctorCommands) probeDefinitions(ctx context.Context) finding {
	const part, mend = "mcp servers", "see all that is wrong: orch mcp validate"
	files, err := c.defined.definitionFiles(c.defined.servers())
	if err != nil {
		return failed(part, err, mend)
	}
	r, err := c.defined.newServers()
	if err != nil {
		return failed(part, err, mend)
	}
	problems, err := r.Validate(ctx, files...)
	switch {
	case err != nil:
		return failed(part, firstError(err), mend)
	case len(problems) > 0:
		return bad(part, problemLines(problems)[0], mend)
	default:
		return fine(part, "%s with definitions; a node starts them", screen.Plural(len(files), "file"))
	}
}

// serverFinding reports the number of servers in each state, and the names of those that need attention.
func serverFinding(list []node.Server) finding {
	const part = "mcp servers"
	count := map[registry.Status]int{}
	var off, blocked int
	var ill []string
	mend := ""
	for _, s := range list {
		blocked += s.Blocked
		if !s.Enabled {
			off++
			continue
		}
		if count[s.Status]++; s.Status != registry.Ready {
			ill = append(ill, s.Name+": "+s.LastError)
			mend = "orch mcp test " + s.Name
		}
	}
	var parts []string
	for _, state := range []registry.Status{registry.Ready, registry.Degraded, registry.Offline} {
		if count[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[state], state))
		}
	}
	if off > 0 {
		parts = append(parts, fmt.Sprintf("%d disabled", off))
	}
	if blocked > 0 {
		parts = append(parts, screen.Plural(blocked, "tool")+" blocked (orch mcp accept)")
	}
	switch text := strings.Join(parts, ", "); {
	case text == "":
		return fine(part, "none are defined")
	case mend != "":
		return bad(part, text+" ("+strings.Join(ill, "; ")+")", mend)
	default:
		return fine(part, "%s", text)
	}
}
