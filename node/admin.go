package node

import (
	"context"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/rpc"
)

// Asker calls methods of a node that are not in api.API, such as "orch.servers.list".
type Asker interface {
	// Ask sends in to a method, and decodes its answer into out. It returns UNAVAILABLE if no node answers.
	Ask(ctx context.Context, method string, in, out any) error
}

var (
	_ Asker = (*rpc.Remote)(nil)
	_ Asker = (*Node)(nil)
)

// Admin administers the MCP servers of a node in this process or elsewhere. It is safe for concurrent use.
type Admin struct {
	node Asker
	by   string
}

// NewAdmin returns an Admin for the node behind a. It does no I/O.
func NewAdmin(a Asker) Admin { return Admin{node: a} }

// As returns an Admin that acts as an identity, such as user:ada. The log records who enables and disables servers.
func (a Admin) As(who string) Admin {
	a.by = who
	return a
}

// Server is an MCP server of a node.
type Server struct {
	registry.MCPTool

	// Blocked is the number of its tools that wait until a person accepts their definitions.
	Blocked int `json:"blocked"`
}

// Reloaded is the result of a reload.
type Reloaded struct {
	// Count is the number of servers that were connected because their definitions are new or have changed.
	Count int `json:"reloaded"`
	// Servers are all servers after the reload.
	Servers []Server `json:"servers"`
}

// Acceptance is a person's acceptance of tool definitions.
type Acceptance struct {
	Server string `json:"server"`
	// Tools maps the name that the server gives a tool to the digest of the definition that the person has seen.
	Tools map[string]string `json:"tools"`
	// By is the identity of the person, such as user:ada.
	By string `json:"by"`
}

type (
	serverName struct {
		Name string `json:"name"`
		// By is the identity that sends the request.
		By string `json:"by,omitempty"`
	}
	tested struct {
		Report registry.MCPHealthReport `json:"report"`
		Error  *fault.Error             `json:"error,omitempty"`
	}
)

// ActorFields implements rpc.ActorRequest.
func (s *serverName) ActorFields() []*string { return []*string{&s.By} }

// ActorFields implements rpc.ActorRequest.
func (a *Acceptance) ActorFields() []*string { return []*string{&a.By} }

// serversTimeout limits requests that start servers. The definition of a server sets a shorter limit for that server.
const serversTimeout = 10 * time.Minute

func (a Admin) ask(ctx context.Context, method string, in, out any) error {
	ctx, stop := context.WithTimeout(ctx, serversTimeout)
	defer stop()
	return a.node.Ask(ctx, bus.ServersPrefix+"."+method, in, out)
}

// List returns all servers, sorted by name.
func (a Admin) List(ctx context.Context) ([]Server, error) {
	list := []Server{}
	return list, a.ask(ctx, "list", struct{}{}, &list)
}

// Test opens a separate connection to a server, measures it and closes it. After a failed test it returns the report together
// with the error. For an unknown server it returns NOT_FOUND without a report.
func (a Admin) Test(ctx context.Context, name string) (registry.MCPHealthReport, error) {
	var t tested
	if err := a.ask(ctx, "test", serverName{name, a.by}, &t); err != nil || t.Error == nil {
		return t.Report, err
	}
	return t.Report, t.Error
}

// Enable enables a server, now and after restarts.
func (a Admin) Enable(ctx context.Context, name string) (Server, error) {
	var server Server
	return server, a.ask(ctx, "enable", serverName{name, a.by}, &server)
}

// Disable disables a server, now and after restarts.
func (a Admin) Disable(ctx context.Context, name string) (Server, error) {
	var server Server
	return server, a.ask(ctx, "disable", serverName{name, a.by}, &server)
}

// Reload reads the definitions of servers again.
func (a Admin) Reload(ctx context.Context) (Reloaded, error) {
	var r Reloaded
	return r, a.ask(ctx, "reload", struct{}{}, &r)
}

// Definitions returns the tool definitions of a server, and whether each was accepted. If server is empty, it returns the
// definitions of all servers.
func (a Admin) Definitions(ctx context.Context, server string) ([]gateway.Definition, error) {
	list := []gateway.Definition{}
	return list, a.ask(ctx, "definitions", serverName{server, a.by}, &list)
}

// Accept accepts the definitions that a person has seen, and returns them. If one of them has changed since, it accepts none and
// returns CONFLICT.
func (a Admin) Accept(ctx context.Context, acceptance Acceptance) ([]gateway.Definition, error) {
	list := []gateway.Definition{}
	return list, a.ask(ctx, "accept", acceptance, &list)
}
