package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/tools"
)

// followTools calls offerTools after each change of the catalogue or of the agents. The SDK then notifies clients of the changed
// lists (S1-037).
func (s *Server) followTools(ctx context.Context, replaced <-chan struct{}) {
	tick := time.NewTicker(agentsEvery)
	defer tick.Stop()
	if s.cfg.Stores.Agents == nil {
		tick.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !s.agents.update() {
				continue
			}
			s.agentPrompts.offer()
		case <-replaced:
			replaced = s.cfg.Catalogue.Replaced()
		}
		s.offerTools()
	}
}

// offerTools registers the tools of the catalogue with the SDK, and removes old ones (S2-020, S2-021). It also registers unlisted
// and refused tools, so that a call of a refused tool returns the reason.
func (s *Server) offerTools() {
	offered := map[string]string{}
	for _, name := range slices.Concat(s.cfg.Catalogue.Names(), s.cfg.Catalogue.Refused()) {
		t, ok := s.cfg.Catalogue.Get(name)
		if !ok || !s.cfg.Offer.Show.shows(t) {
			continue
		}
		described := toolOf(t)
		described.Description = s.agents.describe(name, described.Description)
		offered[name] = string(mustJSON(described)) + strconv.FormatBool(t.Spec().Unlisted)
		if s.offered[name] != offered[name] {
			s.sdk.AddTool(described, s.calls.callTool)
		}
	}
	s.sdk.RemoveTools(missingKeys(s.offered, offered)...)
	s.offered = offered
	s.tools.forget()
}

// toolOf returns the MCP definition of a tool, with hints derived from its contract (S0-010).
func toolOf(t tools.Tool) *mcp.Tool {
	spec := t.Spec()
	hints := tools.Annotate(spec)
	m := &mcp.Tool{
		Name: spec.Name, Title: spec.Title, Description: spec.Purpose, InputSchema: t.InputSchema(),
		Annotations: &mcp.ToolAnnotations{
			Title: hints.Title, ReadOnlyHint: hints.ReadOnlyHint, IdempotentHint: hints.IdempotentHint,
			DestructiveHint: &hints.DestructiveHint, OpenWorldHint: &hints.OpenWorldHint,
		},
	}
	if _, whole := t.(tools.Replier); !whole {
		m.OutputSchema = openOutput(t.OutputSchema())
	}
	return m
}
