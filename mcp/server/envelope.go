package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	// codeHeader is the error code of 2026-07-28 for a header that contradicts the body.
	codeHeader = -32020
)

// envelope contains those fields of a message that the router and the stdio reader use.
type envelope struct {
	Version string `json:"jsonrpc"`
	// ID is empty for a notification and for an invalid id.
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params struct {
		Task      json.RawMessage `json:"task"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
		Notifications struct {
			TaskIDs []string `json:"taskIds"`
			// Subscriptions is the field of eventsExtension.
			Subscriptions []string `json:"orch/subscriptions"`
		} `json:"notifications"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// ownerOf returns the name of the authenticated identity of a request.
func ownerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		return info.UserID
	}
	return ""
}

// MaxBody is the most bytes of one request over HTTP. A larger request is answered with status 413.
const MaxBody = 4 << 20

// Limits of an identity over HTTP.
const (
	// MaxRate is the sustained number of requests a second.
	MaxRate = 5000
	// MaxBurst is the most requests at once.
	MaxBurst = 10_000
	// MaxInFlight is the most concurrent requests, including waiting ones.
	MaxInFlight = 4000
	// MaxHeld is the total bytes of the concurrent requests.
	MaxHeld = 64 << 20
	// MaxSessions is the most open sessions of all identities together.
	MaxSessions = 10_000
)

// mayBeLarge reports whether the answer to a message may be large and may have to wait for memory (answerMemory).
func (p envelope) mayBeLarge() bool {
	return p.Method != nil && slices.Contains([]string{"tools/call", "resources/read", "tasks/result", "tasks/get"}, *p.Method)
}

// parseEnvelope decodes the envelope of a message. It returns an error for an invalid message (S2-009).
func parseEnvelope(body []byte) (envelope, *jsonrpc.Error) {
	var p envelope
	err := json.Unmarshal(body, &p)
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
		return p, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "this is not valid JSON"}
	}
	if !utf8.Valid(body) {
		return envelope{}, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "this is not valid UTF-8"}
	}
	if !isID(p.ID) {
		p.ID = nil
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the id must be a string or a number"}
	}
	switch {
	case bytes.TrimSpace(body)[0] != '{', err != nil && (p.Method == nil || *p.Method == ""), p.Version != "2.0":
		return p, notOneMessage()
	case p.Method == nil && p.Result == nil && p.Error == nil:
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message has no method"}
	}
	return p, nil
}
