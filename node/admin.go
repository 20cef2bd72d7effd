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

// Asker sends requests to a node beside those of api.API, by the name of a method such as
// "orch.servers.list". UNAVAILABLE when nobody answers it.
type Asker interface {
	Ask(ctx context.Context, method string, in, out any) error
}

var (
	_ Asker = (*rpc.Remote)(nil)
	_ Asker = (*Node)(nil)
)

// Admin administers the MCP servers of a node, in this process or elsewhere. It is safe for concurrent use.
type Admin struct {
	node Asker
	by   string
}

// NewAdmin administers those of the node that is asked. It does no I/O.
func NewAdmin(a Asker) Admin { return Admin{node: a} }

// As returns the same for somebody, such as user:ada: the log tells who has enabled and disabled servers.
func (a Admin) As(who string) Admin {
	a.by = who
	return a
}

// Server is an MCP server of a node.
type Server struct {
	registry.MCPTool

	// Blocked counts those of its tools that wait for somebody to accept them.
	Blocked int `json:"blocked"`
}

// Reloaded says what a reload has done.
type Reloaded struct {
	// Count is how many servers are new or changed, and connected.
	Count   int      `json:"reloaded"`
	Servers []Server `json:"servers"`
}

// Acceptance is the word of a person about definitions of tools.
type Acceptance struct {
	Server string `json:"server"`
	// Tools are the digests of the definitions that the person has seen, by the names that the server gives its tools.
	Tools map[string]string `json:"tools"`
	// By is who accepts, such as user:ada.
	By string `json:"by"`
}

type (
	serverName struct {
		Name string `json:"name"`
		// By is who asks.
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

// serversPatience bounds requests that start servers, whose definitions say how long that may take.
const serversPatience = 10 * time.Minute

func (a Admin) ask(ctx context.Context, method string, in, out any) error {
	ctx, stop := context.WithTimeout(ctx, serversPatience)
	defer stop()
	return a.node.Ask(ctx, bus.ServersPrefix+"."+method, in, out)
}

// List returns all servers, sorted by name.
func (a Admin) List(ctx context.Context) ([]Server, error) {
	list := []Server{}
	return list, a.ask(ctx, "list", struct{}{}, &list)
}

// Test opens a connection of its own, measures it and closes it. The report comes with the error of a failed test too;
// NOT_FOUND comes without one.
func (a Admin) Test(ctx context.Context, name string) (registry.MCPHealthReport, error) {
	var t tested
	if err := a.ask(ctx, "test", serverName{name, a.by}, &t); err != nil || t.Error == nil {
		return t.Report, err
	}
	return t.Report, t.Error
}

// Enable lets a server be used, now and after restarts.
func (a Admin) Enable(ctx context.Context, name string) (Server, error) {
	var server Server
	return server, a.ask(ctx, "enable", serverName{name, a.by}, &server)
}

// Disable closes a server, now and after restarts.
func (a Admin) Disable(ctx context.Context, name string) (Server, error) {
	var server Server
	return server, a.ask(ctx, "disable", serverName{name, a.by}, &server)
}

// Reload reads the definitions of servers again.
func (a Admin) Reload(ctx context.Context) (Reloaded, error) {
	var r Reloaded
	return r, a.ask(ctx, "reload", struct{}{}, &r)
}

// Definitions returns what a server says about its tools, and whether somebody has accepted it; that of all servers
// when none is named.
func (a Admin) Definitions(ctx context.Context, server string) ([]gateway.Definition, error) {
	list := []gateway.Definition{}
	return list, a.ask(ctx, "definitions", serverName{server, a.by}, &list)
}

// Accept accepts definitions as they were seen, and returns them. CONFLICT, and nothing is accepted, when one of them is
// another one by now.
func (a Admin) Accept(ctx context.Context, word Acceptance) ([]gateway.Definition, error) {
	list := []gateway.Definition{}
	return list, a.ask(ctx, "accept", word, &list)
}
