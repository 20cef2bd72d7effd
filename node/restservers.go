package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/mcp/gateway"
)

// serversWait is how long a reader of the HTTP API waits for the servers, some of which may be starting.
const serversWait = 10 * time.Second

// restServers implements rest.ServerService.
type restServers struct {
	admin Admin
	// entries returns the tools that the servers offer.
	entries func() []gateway.Entry
	redact  func(string) string
}

var _ rest.ServerService = restServers{}

// Servers implements rest.ServerService.
func (s restServers) Servers(ctx context.Context, _ rest.ServersRequest) (rest.ServersReply, error) {
	ctx, cancel := context.WithTimeout(ctx, serversWait)
	defer cancel()
	all, err := s.admin.List(ctx)
	if fault.Has(err, fault.ToolDisabled) {
		return rest.ServersReply{Servers: []rest.ServerView{}, Disabled: true}, nil
	}
	if err != nil {
		return rest.ServersReply{}, err
	}
	reply := rest.ServersReply{Servers: make([]rest.ServerView, len(all))}
	for i, one := range all {
		reply.Servers[i] = s.view(one)
	}
	return reply, nil
}

func (s restServers) view(v Server) rest.ServerView {
	return rest.ServerView{
		Name: v.Name, Description: s.redact(v.Config.Description), Transport: v.Config.Transport, Source: v.Source, Status: string(v.Status), Enabled: v.Enabled,
		Breaker: string(v.Breaker.State), Failures: v.Breaker.Failures, LastError: s.redact(v.LastError), CheckedAt: v.LastHealthCheck,
		Tools: v.Tools, Blocked: v.Blocked, Calls: v.Metrics.Invocations, Errors: v.Metrics.Errors, Latency: v.Metrics.AverageLatency,
	}
}

// Tools implements rest.ServerService.
func (s restServers) Tools(ctx context.Context, r rest.ServerToolsRequest) (rest.ServerToolsReply, error) {
	ctx, cancel := context.WithTimeout(ctx, serversWait)
	defer cancel()
	all, err := s.admin.List(ctx)
	if err != nil {
		return rest.ServerToolsReply{}, err
	}
	if !slices.ContainsFunc(all, func(one Server) bool { return one.Name == r.Server }) {
		return rest.ServerToolsReply{}, fault.New(fault.NotFound, "there is no such MCP server").WithField("server").WithHint("orch mcp list shows those that are defined")
	}
	return s.tools(ctx, r.Server)
}

// Accept implements rest.ServerService.
func (s restServers) Accept(ctx context.Context, r rest.AcceptRequest) (rest.ServerToolsReply, error) {
	if _, err := s.admin.Accept(ctx, Acceptance{Server: r.Server, Tools: r.Tools, By: r.Actor}); err != nil {
		return rest.ServerToolsReply{}, err
	}
	return s.tools(ctx, r.Server)
}

// tools returns the tools of a server: those with a definition, and what the catalogue offers of them.
func (s restServers) tools(ctx context.Context, server string) (rest.ServerToolsReply, error) {
	definitions, err := s.admin.Definitions(ctx, server)
	if err != nil {
		return rest.ServerToolsReply{}, err
	}
	offered := map[string]gateway.Entry{}
	for _, e := range s.entries() {
		if e.Server == server {
			offered[e.Tool] = e
		}
	}
	reply := rest.ServerToolsReply{Tools: make([]rest.ServerTool, len(definitions))}
	for i, d := range definitions {
		spec := offered[d.Tool].Spec
		reply.Tools[i] = rest.ServerTool{
			Tool: d.Tool, Name: spec.Name, Effect: string(spec.Effect), Description: s.redact(spec.Purpose), Status: string(d.Status), Why: d.Why,
			SHA256: d.SHA256, AcceptedSHA256: d.AcceptedSHA256, Diff: s.redact(d.Diff), AcceptedAt: d.At, AcceptedBy: d.By,
		}
	}
	slices.SortFunc(reply.Tools, func(a, b rest.ServerTool) int { return strings.Compare(a.Tool, b.Tool) })
	return reply, nil
}
