package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/tools"
)

// StandaloneAdmin administers external MCP servers in a process without a node.
type StandaloneAdmin struct {
	Admin

	gateway *gateway.Gateway
}

// NewStandaloneAdmin returns an admin for the servers that s defines. The first request starts the servers.
func NewStandaloneAdmin(s Servers, log *slog.Logger) (*StandaloneAdmin, error) {
	g, err := standaloneGateway(context.Background(), s, gateway.Never, log) // starts no server, so it does not block
	if err != nil {
		return nil, err
	}
	return &StandaloneAdmin{NewAdmin(newServerAdmin(g).methods()), g}, nil
}

// Close stops the servers.
func (a *StandaloneAdmin) Close(ctx context.Context) {
	_ = a.gateway.Close(context.WithoutCancel(ctx)) // nothing is in flight
}

// RecordedTools returns the tools of the defined servers as they were last recorded. If connectNew is set, it starts the servers
// that have no record, to record their tools. It starts no other servers.
func RecordedTools(ctx context.Context, s Servers, connectNew bool, log *slog.Logger) ([]gateway.Entry, error) {
	connect := gateway.Never
	if connectNew {
		connect = gateway.OnCall
	}
	g, err := standaloneGateway(ctx, s, connect, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Close(context.WithoutCancel(ctx)) }() // nothing is in flight
	return g.Entries(), nil
}

// standaloneGateway starts a gateway in a process without a node.
func standaloneGateway(ctx context.Context, s Servers, connect gateway.Connect, log *slog.Logger) (*gateway.Gateway, error) {
	catalogue, err := tools.New()
	if err != nil {
		return nil, err
	}
	s.Connect = connect
	g, err := gateway.New(s.gateway(catalogue, log))
	if err != nil {
		return nil, err
	}
	if err := g.Start(ctx); err != nil {
		return nil, errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// RecordedAdmin returns an admin for the recorded definitions below the home of a user. Only its methods Definitions and Accept
// work. They need no running server.
func RecordedAdmin(home string, log *slog.Logger) Admin {
	return NewAdmin(serverAdmin{trust: recordedAcceptances{gateway.OpenRecords(home, log)}}.records())
}
