package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// initialize adds the tasks of 2025-11-25 to the capabilities, which the SDK does not know (S2-006). Whoever asks for
// a newer version gets that one (S2-003), and has to be treated so: the SDK goes by what was asked for.
func (s *Server) initialize(ctx context.Context, _ client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	if p, ok := req.GetParams().(*mcp.InitializeParams); ok && p != nil && p.ProtocolVersion >= statelessFrom {
		p.ProtocolVersion = lastOfSessions
	}
	result, err := next(ctx, "initialize", req)
	if err != nil {
		return nil, err
	}
	fields := object{}
	decode(mustJSON(result), &fields)
	if caps, ok := fields["capabilities"].(object); ok && fields["protocolVersion"] == lastOfSessions {
		caps["tasks"] = object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	}
	return &reply{fields: fields}, nil
}
