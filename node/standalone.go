package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/tools"
)

// StandaloneAdmin administers MCP servers that run without a node.
type StandaloneAdmin struct {
	Admin

	gateway *gateway.Gateway
}

// NewStandaloneAdmin returns an admin for the defined servers. They start with the first request.
func NewStandaloneAdmin(s Servers, log *slog.Logger) (*StandaloneAdmin, error) {
	g, err := standaloneGateway(context.Background(), s, gateway.Never, log) // it waits for nothing
	if err != nil {
		return nil, err
	}
	return &StandaloneAdmin{NewAdmin(newServerAdmin(g).methods()), g}, nil
}

// Close ends the servers.
func (a *StandaloneAdmin) Close(ctx context.Context) {
	_ = a.gateway.Close(context.WithoutCancel(ctx)) // nothing is in flight
}

// RecordedTools returns the tools of the defined servers as they were last recorded. It starts no server, unless meet is set
// and a server was never recorded.
func RecordedTools(ctx context.Context, s Servers, meet bool, log *slog.Logger) ([]gateway.Entry, error) {
	connect := gateway.Never
	if meet {
		connect = gateway.OnCall
	}
	g, err := standaloneGateway(ctx, s, connect, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Close(context.WithoutCancel(ctx)) }() // nothing is in flight
	return g.Entries(), nil
}

// standaloneGateway returns a gateway without a node.
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

// RecordedAdmin returns an admin for the recorded definitions below the home of a user. It only returns and accepts
// definitions, and starts no server.
func RecordedAdmin(home string, log *slog.Logger) Admin {
	return NewAdmin(serverAdmin{trust: recordedAcceptances{gateway.OpenRecords(home, log)}}.records())
}
