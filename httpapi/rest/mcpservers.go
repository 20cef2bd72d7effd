package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
)

// ServerService describes the external MCP servers of the node, and accepts definitions of their tools.
type ServerService interface {
	// Servers returns all servers, by name.
	Servers(ctx context.Context, r ServersRequest) (ServersReply, error)
	// Tools returns the tools of a server. It returns NOT_FOUND for an unknown server.
	Tools(ctx context.Context, r ServerToolsRequest) (ServerToolsReply, error)
	// Accept accepts definitions of tools. Errors: NOT_FOUND for an unknown server or tool, CONFLICT if a definition has changed since.
	Accept(ctx context.Context, r AcceptRequest) (ServerToolsReply, error)
}

// ServersRequest asks for the external MCP servers.
type ServersRequest struct{}

// ServersReply contains the external MCP servers, by name.
type ServersReply struct {
	Servers []ServerView `json:"servers"`
	// Disabled is set if the node uses no MCP servers at all.
	Disabled bool `json:"disabled,omitempty"`
}

// ServerView is an external MCP server. It contains nothing of the definition that may be a secret.
type ServerView struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Transport   string `json:"transport"`
	// Source is the file that defines the server.
	Source string `json:"source"`
	// Status is ready, degraded or offline. Breaker is closed, open or half-open.
	Status  string `json:"status"`
	Enabled bool   `json:"enabled"`
	Breaker string `json:"breaker"`
	// Failures counts consecutive failures to connect.
	Failures  int    `json:"failures,omitempty"`
	LastError string `json:"last_error,omitempty"`
	// CheckedAt is the time of the last attempt to connect or ping.
	CheckedAt time.Time `json:"checked_at,omitzero"`
	// Tools is the number of its tools. Blocked is how many of them wait until a person accepts their definitions.
	Tools   int `json:"tools"`
	Blocked int `json:"blocked"`
	// Calls and Errors count its calls since the node started, Latency is the mean of the last 100.
	Calls   int64         `json:"calls"`
	Errors  int64         `json:"errors"`
	Latency time.Duration `json:"latency,omitempty"`
}

// ServerToolsRequest names a server.
type ServerToolsRequest struct {
	Server string `json:"server"`
}

// ServerToolsReply contains tools of a server, by name.
type ServerToolsReply struct {
	Tools []ServerTool `json:"tools"`
}

// ServerTool is a tool of an external MCP server. All its texts come from the server.
type ServerTool struct {
	// Tool is the name that the server gives it, Name that in calls; empty if the tool is not offered.
	Tool        string `json:"tool"`
	Name        string `json:"name,omitempty"`
	Effect      string `json:"effect,omitempty"`
	Description string `json:"description,omitempty"`
	// Status is accepted, changed or unaccepted: calls of a tool are refused until somebody accepts its definition. Why is the reason.
	Status string `json:"status"`
	Why    string `json:"why,omitempty"`
	// SHA256 is the digest of the present definition, AcceptedSHA256 that of the accepted one. Diff is a unified diff from the
	// accepted to the present definition.
	SHA256         string    `json:"sha256,omitempty"`
	AcceptedSHA256 string    `json:"accepted_sha256,omitempty"`
	Diff           string    `json:"diff,omitempty"`
	AcceptedAt     time.Time `json:"accepted_at,omitzero"`
	AcceptedBy     string    `json:"accepted_by,omitempty"`
}

// AcceptRequest accepts definitions of tools.
type AcceptRequest struct {
	Server string `json:"server"`
	// Tools maps names that the server gives its tools to the digests of the definitions that the person has seen.
	Tools map[string]string `json:"tools"`
	Actor string            `json:"actor"`
}

// ActorFields returns the field of the person who accepts.
func (r *AcceptRequest) ActorFields() []*string { return []*string{&r.Actor} }

// maxAccepted limits the definitions in one request.
const maxAccepted = 1000

// serverRoutes returns the routes of external MCP servers.
func serverRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	of := func(c Config) ServerService { return c.Servers }
	named := fromPath("server", "server")
	return []route{
		served(plain(get, "/mcp/servers", "mcp_servers", "List the external MCP servers.", readsAll, toolList, nothing()), of, ServerService.Servers),
		served(plain(get, "/mcp/servers/{server}/tools", "mcp_tools", "List the tools of an MCP server, and how their definitions differ from the accepted ones.", readsAll, toolList, nothing()).
			with(named), of, ServerService.Tools),
		served(plain(post, "/mcp/servers/{server}/accept", "mcp_accept", "Accept definitions of tools of an MCP server.", operates, anyTool, nothing()).
			with(named).checks(prepared(checkAccept)), of, ServerService.Accept),
	}
}

func checkAccept(r *AcceptRequest) error {
	switch {
	case len(r.Tools) == 0:
		return fault.New(fault.RequiredField, "is required").WithField("tools")
	case len(r.Tools) > maxAccepted:
		return fault.New(fault.ValidationError, "%d are too many, the limit is %d", len(r.Tools), maxAccepted).WithField("tools")
	}
	for tool, sum := range r.Tools {
		if sum == "" {
			return fault.New(fault.RequiredField, "the digest of what was seen is required").WithField("tools." + clip(tool))
		}
	}
	return nil
}
