package server

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// initialize adds the tasks of 2025-11-25 to the capabilities, which the SDK does not know (S2-006). Whoever asks for
// a newer version gets that one (S2-003), and has to be treated so: the SDK goes by what was asked for.
func (s *Server) initialize(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, _ := req.GetParams().(*mcp.InitializeParams)
	if err := checkInitialize(p); err != nil {
		return nil, err
	}
	if p.ProtocolVersion >= statelessFrom {
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
	fields["instructions"] = s.tools.instructions(s.tools.profileOf(c))
	return &reply{fields: fields}, nil
}

// initializeError is why a request cannot open a session; nil when it can, or when the SDK says why not.
func initializeError(request []byte) *jsonrpc.Error {
	var p struct {
		Params *mcp.InitializeParams `json:"params"`
	}
	if err := json.Unmarshal(request, &p); err != nil {
		return nil //nolint:nilerr // the SDK says what is wrong
	}
	return checkInitialize(p.Params)
}

// checkInitialize refuses a request that lacks what every client has to say (S2-002).
func checkInitialize(p *mcp.InitializeParams) *jsonrpc.Error {
	switch {
	case p == nil:
		return wrongParams("params are missing")
	case p.ProtocolVersion == "":
		return wrongParams("protocolVersion is required")
	case p.Capabilities == nil:
		return wrongParams("capabilities is required")
	case p.ClientInfo == nil || p.ClientInfo.Name == "":
		return wrongParams("clientInfo with a name is required")
	default:
		return nil
	}
}

func wrongParams(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}
