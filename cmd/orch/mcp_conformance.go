package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/fixture"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// newMCPConformance returns the command that runs a node for the MCP conformance suite. The node is the real one, with the
// fixtures of the suite as additional tools.
func newMCPConformance(c *mcpClientCommands) *cobra.Command {
	var address, token string
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Serve the fixtures of the MCP conformance suite",
		Example: "  orch mcp conformance --token 0123456789abcdef",
		Args:    takes(),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.conform(cmd.Context(), address, token)
		},
	}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:0", "where to listen")
	cmd.Flags().StringVar(&token, "token", "", "the bearer token to accept")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *mcpClientCommands) conform(ctx context.Context, address, token string) error {
	if len(token) < 16 {
		return fault.New(fault.ValidationError, "must have at least 16 characters").WithField("token")
	}
	cfg := processNodes{logs: c.err}.config(c.cfg, working)
	var f fixture.Fixture
	cfg.Faces.HTTP, cfg.Extra, cfg.Faces.Tokens = address, f.Tools(), staticToken{token, server.Identity{Name: c.actor(), Role: server.Operator}}
	cfg.Faces.Face = func(face *server.Config) { face.Hooks.Extend = f.Extend }
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	_ = writeLine(c.out, map[string]string{"mcp": n.FaceURL()})
	<-ctx.Done()
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	return n.Stop(limited)
}

// staticToken accepts a single token.
type staticToken struct {
	secret string
	who    server.Identity
}

// Verify implements server.Tokens.
func (t staticToken) Verify(_ context.Context, token string) (server.Identity, time.Time, error) {
	if token != t.secret {
		return server.Identity{}, time.Time{}, fault.New(fault.Unauthorized, "the token is not known")
	}
	return t.who, time.Time{}, nil
}
