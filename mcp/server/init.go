package server

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// initialize adds the tasks of 2025-11-25, which the SDK does not support, to the capabilities (S2-006). A client that requests
// a newer version gets 2025-11-25 (S2-003): initialize changes the version in the request, because the SDK uses that version.
func (s *Server) initialize(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, _ := req.GetParams().(*mcp.InitializeParams)
	if err := checkInitialize(p); err != nil {
		return nil, err
	}
	if p.ProtocolVersion >= firstStatelessVersion {
		p.ProtocolVersion = lastSessionVersion
	}
	result, err := next(ctx, "initialize", req)
	if err != nil {
		return nil, err
	}
	fields := object{}
	decode(mustJSON(result), &fields)
	if caps, ok := fields["capabilities"].(object); ok && fields["protocolVersion"] == lastSessionVersion {
		caps["tasks"] = object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	}
	fields["instructions"] = s.tools.instructions(s.tools.profileOf(c))
	return &reply{fields: fields}, nil
}

// initializeError returns the error of a request that cannot open a session. It returns nil for a valid request, and for errors
// that the SDK reports.
func initializeError(request []byte) *jsonrpc.Error {
	var p struct {
		Params *mcp.InitializeParams `json:"params"`
	}
	if err := json.Unmarshal(request, &p); err != nil {
		return nil //nolint:nilerr // the SDK reports the error
	}
	return checkInitialize(p.Params)
}

// checkInitialize returns an error for a request without a required field (S2-002).
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
