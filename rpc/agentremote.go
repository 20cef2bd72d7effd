package rpc

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
)

var _ agents.Service = (*Remote)(nil)

// ServeAgents serves an agents.Service below AgentPrefix. The actor of requests is cfg.Identity.
func ServeAgents(c *bus.Conn, s agents.Service, cfg EndpointConfig) (*Endpoint, error) {
	return Serve(c, bus.AgentPrefix, map[string]Method{
		"register": Handle(s.Register),
		"collect":  Handle(s.Collect),
		"list":     Handle(func(ctx context.Context, _ struct{}) ([]agents.View, error) { return s.Agents(ctx) }),
		"remove":   Handle(s.Remove),
	}, cfg)
}

// Register implements agents.Service.
func (r *Remote) Register(ctx context.Context, in agents.Registration) (agents.Registered, error) {
	var m agents.Registered
	err := Call(ctx, r.conn, bus.AgentPrefix+".register", in, &m)
	return m, err
}

// Collect implements agents.Service.
func (r *Remote) Collect(ctx context.Context, in agents.Collection) (agents.Collected, error) {
	var c agents.Collected
	err := Call(ctx, r.conn, bus.AgentPrefix+".collect", in, &c)
	return c, err
}

// Agents implements agents.Service.
func (r *Remote) Agents(ctx context.Context) ([]agents.View, error) {
	var views []agents.View
	err := Call(ctx, r.conn, bus.AgentPrefix+".list", struct{}{}, &views)
	return views, err
}

// Remove implements agents.Service.
func (r *Remote) Remove(ctx context.Context, in agents.Removal) (agents.Member, error) {
	var m agents.Member
	err := Call(ctx, r.conn, bus.AgentPrefix+".remove", in, &m)
	return m, err
}
