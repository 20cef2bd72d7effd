package bench

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
)

// sdkCaller returns a connector for clients of the MCP SDK, with a version of the protocol.
func sdkCaller(version string) connector {
	return func(ctx context.Context, base http.RoundTripper, url, token string) (func(context.Context) error, func(), error) {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{base, token}}}
		session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			return nil, nil, err
		}
		if got := session.InitializeResult().ProtocolVersion; got != version {
			return nil, nil, fault.New(fault.Internal, "a client of the benchmark speaks %s", got)
		}
		call := func(ctx context.Context) error {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: noopName, Arguments: struct{}{}})
			if err == nil && result.IsError {
				return fault.New(fault.Internal, "a call of the benchmark failed")
			}
			return err
		}
		return call, func() { _ = session.Close() }, nil // the server may have stopped
	}
}

// bearer is a transport that adds a bearer token to every request.
type bearer struct {
	base  http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.base.RoundTrip(r)
}
