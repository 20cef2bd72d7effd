package server

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/tools"
)

// offers are the tools that are registered with the SDK.
type offers struct {
	first sync.Once
	mutex sync.Mutex
	// definitions of the tools by name; nil before the first client.
	definitions map[string]string
}

// forClient returns the SDK's server for a client. The tools are registered when the first client comes: to prepare all their
// schemas takes longer than the rest of the server.
func (s *Server) forClient() *mcp.Server {
	s.offers.first.Do(func() {
		s.offers.mutex.Lock()
		defer s.offers.mutex.Unlock()
		s.offerTools()
	})
	return s.sdk
}

// renewTools offers the tools as they are now, if there has been a client.
func (s *Server) renewTools() {
	defer s.tools.forget()
	s.offers.mutex.Lock()
	defer s.offers.mutex.Unlock()
	if s.offers.definitions != nil {
		s.offerTools()
	}
}

// followTools calls renewTools after each change of the catalogue or of the agents. The SDK then notifies clients of the changed
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
		s.renewTools()
	}
}

// offerTools registers the tools of the catalogue with the SDK, and removes old ones (S2-020, S2-021). It also registers unlisted
// and refused tools, so that a call of a refused tool returns the reason. The caller holds the mutex of the offers.
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
		if s.offers.definitions[name] != offered[name] {
			s.sdk.AddTool(described, s.calls.callTool)
		}
	}
	s.sdk.RemoveTools(missingKeys(s.offers.definitions, offered)...)
	s.offers.definitions = offered
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
