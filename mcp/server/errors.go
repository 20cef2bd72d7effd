package server

import (
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/orch-dev/orch/fault"
)

// wireError gives an error its code. One that is not of the protocol would go out with code 0.
func wireError(err error) error {
	var wire *jsonrpc.Error
	var coded *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wire) && len(wire.Data) > 0 && !json.Valid(wire.Data): // the SDK quotes URIs as Go does
		return &jsonrpc.Error{Code: wire.Code, Message: wire.Message}
	case errors.As(err, &wire):
		return err
	case errors.As(err, &coded):
		return rpcError(coded)
	default:
		return err
	}
}

func asWire(err error, to **jsonrpc.Error) bool { return errors.As(err, to) }

// recover turns a panic into an error of the protocol (S3-144).
func (s *Server) recover(method string, err *error) {
	if r := recover(); r != nil {
		s.cfg.Logger.Error("mcp_panic", slog.String("method", method), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
		*err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
	}
}

// decode reads JSON that was written a moment ago; what does not fit is left out.
func decode(raw json.RawMessage, into any) { _ = json.Unmarshal(raw, into) }
