package bench

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// runMCPNode runs a node process with a worker that serves MCP over HTTP. Every token authenticates an operator whose name
// is the token.
func runMCPNode(ctx context.Context, cfg node.Config, ready func(string)) error {
	cfg.Faces.HTTP, cfg.Faces.Tokens = "127.0.0.1:0", anyToken{}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	ready(n.FaceURL())
	<-ctx.Done()
	return n.Stop(context.WithoutCancel(ctx))
}

// anyToken accepts every token: each client of the benchmark is a separate identity with its own limits.
type anyToken struct{}

// Verify implements server.Tokens.
func (anyToken) Verify(_ context.Context, token string) (server.Identity, time.Time, error) {
	return server.Identity{Name: "user:" + token, Role: server.Operator}, time.Time{}, nil
}

// bareServerOfMCP returns an SDK server with one no-op tool. It has no tokens, no tasks and no log.
func bareServerOfMCP() *mcp.Server {
	type nothing struct{}
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: noopName, Description: "Do nothing, for benchmarks"},
		func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
			return nil, nothing{}, nil
		})
	return s
}

// runBareMCP runs the process that serves bareServerOfMCP over HTTP, until ctx ends.
func runBareMCP(ctx context.Context, ready func(string)) error {
	s := bareServerOfMCP()
	get := func(*http.Request) *mcp.Server { return s }
	stateful := mcp.NewStreamableHTTPHandler(get, nil)
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerVersion) == versionStateless {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the bare server of MCP does not start")
	}
	web := &http.Server{Handler: both, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	ready("http://" + listener.Addr().String())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(fault.Unavailable, err, "the bare server of MCP has ended")
	}
	return nil
}
