package node

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/rpc"
)

// serveServers serves requests about the external MCP servers of the node.
func (n *Node) serveServers(context.Context) error {
	n.serverMethods = n.auditedServers(n.methods())
	end, err := rpc.Serve(n.requests, bus.ServersPrefix, n.serverMethods, n.forOperator())
	if err == nil {
		n.onStop(closeSoon(end))
	}
	return err
}

// Ask implements Asker. It calls the method in this process.
func (n *Node) Ask(ctx context.Context, method string, in, out any) error {
	if ours, err := n.askMessages(ctx, method, in, out); ours {
		return err
	}
	if ours, err := n.askSessions(ctx, method, in, out); ours {
		return err
	}
	if name, ours := strings.CutPrefix(method, bus.AuditPrefix+"."); ours {
		return localMethods{method: n.auditMethods()[name]}.Ask(ctx, method, in, out)
	}
	return n.serverMethods.Ask(ctx, method, in, out)
}

// methods returns the methods for the external MCP servers of the node.
func (n *Node) methods() localMethods {
	replaced := n.executor.catalogue.Replaced
	g := n.executor.gateway
	if g == nil {
		all := disabledMethods()
		all["catalogue"] = offerMethod(n.requests, func() []gateway.Entry { return nil }, replaced)
		all["features"] = offerMethod(n.requests, func() []gateway.Feature { return nil }, replaced)
		return all
	}
	all := newServerAdmin(g).methods()
	maps.Copy(all, featureMethods(g))
	all["catalogue"] = offerMethod(n.requests, g.Entries, replaced)
	all["features"] = offerMethod(n.requests, g.Features, g.FeaturesReplaced)
	return all
}

// disabledMethods returns the methods of a node without MCP servers. Each returns TOOL_DISABLED.
func disabledMethods() localMethods {
	refuse := func(context.Context, []byte) ([]byte, error) {
		return nil, fault.New(fault.ToolDisabled, "this node uses no MCP servers").WithHint("start it with the setting mcp_enabled")
	}
	all := localMethods{}
	for _, name := range []string{"list", "test", "enable", "disable", "reload", "definitions", "accept", "resource", "prompt"} {
		all[name] = refuse
	}
	return all
}

// acceptances stores which tool definitions people have accepted.
type acceptances interface {
	Definitions(server string) []gateway.Definition
	Accept(server string, wanted map[string]string, by string) ([]gateway.Definition, error)
}

var _ acceptances = (*gateway.Gateway)(nil)

// recordedAcceptances implements acceptances with the recorded definitions, without a gateway.
type recordedAcceptances struct{ gateway.Records }

// Accept implements acceptances.
func (r recordedAcceptances) Accept(server string, wanted map[string]string, by string) ([]gateway.Definition, error) {
	return r.Records.Accept(server, wanted, by, time.Now().UTC())
}

// serverAdmin serves requests about MCP servers.
type serverAdmin struct {
	// ready starts the servers and waits for them to connect, for a limited time.
	ready    func(context.Context) error
	registry registry.MCPRegistry
	trust    acceptances
}

// newServerAdmin returns a serverAdmin for the servers of a gateway. The first request starts them, unless they are running.
func newServerAdmin(g *gateway.Gateway) serverAdmin { return serverAdmin{g.Ready, g.Servers(), g} }

// records returns the methods that use only the recorded definitions. They work without running servers.
func (d serverAdmin) records() localMethods {
	return localMethods{
		"definitions": rpc.Handle(func(_ context.Context, in serverName) ([]gateway.Definition, error) {
			return d.trust.Definitions(in.Name), nil
		}),
		"accept": rpc.Handle(d.accept),
	}
}

// methods returns all methods, except those that return the tools and features of the servers.
func (d serverAdmin) methods() localMethods {
	all := d.records()
	starting := localMethods{
		"list":    rpc.Handle(func(ctx context.Context, _ struct{}) ([]Server, error) { return d.list(ctx) }),
		"test":    rpc.Handle(d.test),
		"enable":  rpc.Handle(d.switching(d.registry.Enable)),
		"disable": rpc.Handle(d.switching(d.registry.Disable)),
		"reload":  rpc.Handle(d.reload),
	}
	for name, method := range starting {
		all[name] = func(ctx context.Context, request []byte) ([]byte, error) {
			if err := d.ready(ctx); err != nil {
				return nil, err
			}
			return method(ctx, request)
		}
	}
	return all
}

func (d serverAdmin) list(ctx context.Context) ([]Server, error) {
	all, err := d.registry.List(ctx)
	if err != nil {
		return nil, err
	}
	blocked := d.blocked("")
	list := make([]Server, len(all))
	for i, s := range all {
		list[i] = Server{s, blocked[s.Name]}
	}
	return list, nil
}

// blocked returns the number of tools that wait for acceptance, by server. If server is empty, it covers all servers.
func (d serverAdmin) blocked(server string) map[string]int {
	count := map[string]int{}
	for _, def := range d.trust.Definitions(server) {
		if def.Status != gateway.Accepted {
			count[def.Server]++
		}
	}
	return count
}

func (d serverAdmin) test(ctx context.Context, in serverName) (tested, error) {
	report, err := d.registry.Test(ctx, in.Name)
	if err != nil && report.Tool == "" {
		return tested{}, err
	}
	t := tested{Report: report}
	if err != nil {
		t.Error = fault.From(err)
	}
	return t, nil
}

// switching returns a handler that enables or disables a server.
func (d serverAdmin) switching(change func(context.Context, string) error) func(context.Context, serverName) (Server, error) {
	return func(ctx context.Context, in serverName) (Server, error) {
		if err := change(registry.AsActor(ctx, in.By), in.Name); err != nil {
			return Server{}, err
		}
		s, err := d.registry.Get(ctx, in.Name)
		if err != nil {
			return Server{}, err
		}
		return Server{s, d.blocked(in.Name)[in.Name]}, nil
	}
}

func (d serverAdmin) reload(ctx context.Context, _ struct{}) (Reloaded, error) {
	n, err := d.registry.Reload(ctx)
	if err != nil {
		return Reloaded{}, err
	}
	list, err := d.list(ctx)
	return Reloaded{n, list}, err
}

// accept accepts the definitions with the digests that the person has seen.
func (d serverAdmin) accept(_ context.Context, in Acceptance) ([]gateway.Definition, error) {
	if in.Server == "" || len(in.Tools) == 0 {
		return nil, fault.New(fault.RequiredField, "is required").WithField("tools")
	}
	for _, digest := range in.Tools {
		if digest == "" {
			return nil, fault.New(fault.RequiredField, "the digest of what was seen is required").WithField("tools")
		}
	}
	return d.trust.Accept(in.Server, in.Tools, in.By)
}

// localMethods implements Asker by calling methods in this process. Like over the bus, requests and answers are encoded as JSON.
type localMethods map[string]rpc.Method

// Ask implements Asker.
func (l localMethods) Ask(ctx context.Context, method string, in, out any) error {
	answer := l[strings.TrimPrefix(method, bus.ServersPrefix+".")]
	if answer == nil {
		return fault.New(fault.Unavailable, "nothing serves %s here", method)
	}
	request, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the request cannot be encoded")
	}
	reply, err := answer(ctx, request)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, out); err != nil {
		return fault.Wrap(fault.Internal, err, "the answer cannot be read")
	}
	return nil
}
