package node

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/rpc"
)

type (
	resourceRequest struct {
		Server string `json:"server"`
		URI    string `json:"uri"`
	}
	promptRequest struct {
		Server    string            `json:"server"`
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments,omitempty"`
	}
	// content is an MCP result. It is sent as base64, because JSON in a JSON string could become six times as long.
	content struct {
		Result []byte `json:"result"`
	}
)

// ReadResource reads a resource of an external MCP server by the server's URI. Results and errors are those of
// gateway.Gateway.ReadResource. In addition, it returns UNAVAILABLE if no node answers, and VALIDATION_ERROR if the result is
// longer than the longest message of an external NATS server.
func (a Admin) ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error) {
	return a.content(ctx, "resource", resourceRequest{server, uri})
}

// GetPrompt returns a prompt of an external MCP server by the server's name for it. Results and errors are those of
// gateway.Gateway.GetPrompt, and the additional errors of ReadResource.
func (a Admin) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	return a.content(ctx, "prompt", promptRequest{server, name, args})
}

func (a Admin) content(ctx context.Context, method string, request any) (json.RawMessage, error) {
	var c content
	if err := a.ask(ctx, method, request, &c); err != nil {
		return nil, err
	}
	if !json.Valid(c.Result) {
		return nil, fault.New(fault.Internal, "the answer of the node cannot be read").WithHint("use the same version of orch on both sides")
	}
	return c.Result, nil
}

// featureMethods returns the methods that read resources and get prompts.
func featureMethods(g *gateway.Gateway) localMethods {
	return localMethods{
		"resource": rpc.Handle(func(ctx context.Context, in resourceRequest) (content, error) {
			raw, err := g.ReadResource(ctx, in.Server, in.URI)
			return content{raw}, err
		}),
		"prompt": rpc.Handle(func(ctx context.Context, in promptRequest) (content, error) {
			raw, err := g.GetPrompt(ctx, in.Server, in.Name, in.Arguments)
			return content{raw}, err
		}),
	}
}
