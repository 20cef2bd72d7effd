package httpapi

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
)

// request is one JSON-RPC message.
type request struct {
	// ID is empty for a notification.
	ID     json.RawMessage
	Method string
	// Params is a JSON object.
	Params json.RawMessage
}

// parse decodes a message. It returns PARSE_ERROR, INVALID_REQUEST or INVALID_PARAMS for an invalid message; r.ID is then set if the
// message has a valid id.
func parse(body []byte) (r request, err error) {
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return r, fault.New(fault.ParseError, "this is not valid JSON")
	}
	if !utf8.Valid(body) {
		return r, fault.New(fault.ParseError, "this is not valid UTF-8")
	}
	if body[0] == '[' {
		return r, invalid("batches are not served").WithHint("send one message a request")
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(body, &parts) != nil {
		return r, invalid("a message is a JSON object")
	}
	if id, ok := parts["id"]; ok {
		if !isID(id) {
			return r, invalid("must be a string or a number").WithField("id").WithHint("leave it out for a notification")
		}
		r.ID = id
	}
	var version string
	if json.Unmarshal(parts["jsonrpc"], &version) != nil || version != "2.0" {
		return r, invalid(`must be "2.0"`).WithField("jsonrpc")
	}
	if parts["method"] == nil || parts["method"][0] != '"' || json.Unmarshal(parts["method"], &r.Method) != nil || r.Method == "" {
		return r, invalid("must be the name of a method").WithField("method")
	}
	switch params := parts["params"]; {
	case params == nil:
		r.Params = json.RawMessage("{}")
	case params[0] == '{':
		r.Params = params
	case params[0] == '[':
		return r, fault.New(fault.InvalidParams, "params are named: a JSON object").WithField("params")
	default:
		return r, invalid("must be a JSON object").WithField("params")
	}
	return r, nil
}

func invalid(message string) *fault.Error { return fault.New(fault.InvalidRequest, "%s", message) }

// isID reports whether a JSON value is a string or a number.
func isID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// isNotification reports whether the message needs no answer.
func (r request) isNotification() bool { return len(r.ID) == 0 }

// response is a JSON-RPC response. Exactly one of Result and Error is set.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *errorResponse  `json:"error,omitempty"`
}

// answer returns a response for the request id, without a result.
func answer(id json.RawMessage) response {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return response{Version: "2.0", ID: id}
}
