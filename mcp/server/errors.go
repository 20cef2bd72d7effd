package server

import (
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/orch-dev/orch/fault"
)

// wireError converts a fault to a protocol error, because the SDK sends errors without a protocol code with code 0.
func wireError(err error) error {
	var wire *jsonrpc.Error
	var coded *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wire) && len(wire.Data) > 0 && !json.Valid(wire.Data): // the SDK quotes URIs in Go syntax, which may be invalid JSON
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
