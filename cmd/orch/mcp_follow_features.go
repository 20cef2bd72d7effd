package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// features implements server.Outside. It contains the resources and prompts of the external MCP servers of a session's node,
// also after the session has changed to another node. It is safe for concurrent use.
type features struct {
	servers node.Admin

	mu       sync.Mutex
	list     []gateway.Feature
	replaced chan struct{}
}

var _ server.Outside = (*features)(nil)

// followFeatures returns the features of the external MCP servers of a node, and updates them until stop is called.
func followFeatures(ctx context.Context, servers node.Admin, log *slog.Logger) (f *features, stop func()) {
	f = &features{servers: servers, replaced: make(chan struct{})}
	return f, outsideFollower{next: f.next, log: log}.follow(ctx)
}

// next waits until the features have a version other than known, applies them, and returns their version.
func (f *features) next(ctx context.Context, known string, wait time.Duration) (string, error) {
	offered, err := f.servers.OfferedFeatures(ctx, known, wait)
	if err != nil || offered.Version == known {
		return offered.Version, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = offered.Features
	close(f.replaced)
	f.replaced = make(chan struct{})
	return offered.Version, nil
}

// Features implements server.Outside.
func (f *features) Features() []gateway.Feature {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// FeaturesReplaced implements server.Outside.
func (f *features) FeaturesReplaced() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replaced
}

// ReadResource implements server.Outside. It returns UNAVAILABLE while no node runs.
func (f *features) ReadResource(ctx context.Context, name, uri string) (json.RawMessage, error) {
	return f.servers.ReadResource(ctx, name, uri)
}

// GetPrompt implements server.Outside. It returns UNAVAILABLE while no node runs.
func (f *features) GetPrompt(ctx context.Context, name, prompt string, args map[string]string) (json.RawMessage, error) {
	return f.servers.GetPrompt(ctx, name, prompt, args)
}
