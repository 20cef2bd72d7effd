package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/tools"
)

// followTools offers the tools that are there now, and clients hear that the list has changed (S1-037).
func (s *Server) followTools(ctx context.Context, replaced <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-replaced:
		}
		replaced = s.cfg.Catalogue.Replaced()
		s.offerTools()
	}
}

// offerTools brings the SDK up to the catalogue (S2-020, S2-021). Tools that stand in no list can be called, so that who
// calls them hears why that is refused.
func (s *Server) offerTools() {
	offered := map[string]string{}
	for _, name := range slices.Concat(s.cfg.Catalogue.Names(), s.cfg.Catalogue.Refused()) {
		t, ok := s.cfg.Catalogue.Get(name)
		if !ok || !s.cfg.Show.shows(t) {
			continue
		}
		described := toolOf(t)
		offered[name] = string(mustJSON(described)) + strconv.FormatBool(t.Spec().Unlisted)
		if s.offered[name] != offered[name] {
			s.sdk.AddTool(described, s.calls.callTool)
		}
	}
	s.sdk.RemoveTools(missingKeys(s.offered, offered)...)
	s.offered = offered
	s.tools.descriptions.forget()
}

// toolOf describes a tool as MCP does, with the hints that follow from its contract (S0-010).
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
