// Package httpapi is the interface of a node for programs that use JSON over HTTP without MCP: the endpoint /rpc for JSON-RPC 2.0
// the requests of registered agents (Agents), and agent cards (Cards).
//
// A method of /rpc is the name of a tool, its params are the arguments, and its result is the structured output. A call is handled
// like tools/call of the MCP server (package mcp/server), which implements the interfaces Authenticator and Client: it has the same
// identities, permissions and limits, and becomes a task in the log. Errors have the codes of fault.Registry (M-4), and the format
// ErrorResponse of the S3 rules.
//
// A response is one JSON document, whatever the Accept header is. Methods that send notifications are an exception: if their request
// has "Accept: text/event-stream", the response is a stream of server-sent events, and the answer is its first event.
package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Path is the path of the endpoint.
const Path = "/rpc"

const (
	// MaxBody is the most bytes of one request.
	MaxBody = 4 << 20
	// DefaultWait is how long a request waits for the end of its call by default.
	DefaultWait = time.Minute
	// MaxWait is the longest wait that a client may request with the header Prefer: wait=SECONDS.
	MaxWait = 10 * time.Minute
	// DefaultKeepAlive is the default interval of comments on an idle stream.
	DefaultKeepAlive = 15 * time.Second
)

// Authenticator authenticates clients.
type Authenticator interface {
	// Authenticate returns the client with a bearer token. It returns UNAUTHORIZED or TOKEN_EXPIRED for an invalid token.
	Authenticate(ctx context.Context, token string) (Client, error)
	// CheckOrigin returns a handler that refuses requests from web pages of foreign origins.
	CheckOrigin(next http.Handler) http.Handler
}

// Client is the authenticated sender of a request.
type Client interface {
	// Name returns the actor in the log.
	Name() string
	// Admit counts a request of size bytes, -1 if unknown. It returns RATE_LIMITED if the client exceeds its limits. The caller
	// must call leave when the request has ended.
	Admit(size int64) (leave func(), err error)
	// Sees reports whether the client sees a method.
	Sees(method string) bool
	// Unseen records that a call was refused because the client does not see the method.
	Unseen(method string, params json.RawMessage)
	// Nearest returns the method with the most similar name; empty for none.
	Nearest(method string) string
	// Call calls a tool. If it returns an error, the reply may contain Task, Approval, Rule and Question too.
	Call(ctx context.Context, c Call) (Reply, error)
	// Listens reports whether a method sends notifications.
	Listens(method string) bool
	// Listen is Call for a method that sends notifications. The listener receives the notifications; the caller must close it.
	// The listener is nil if there is an error.
	Listen(ctx context.Context, c Call) (Reply, Listener, error)
}

// Listener receives the notifications of a call.
type Listener interface {
	// Next waits for messages. It returns no messages after a while, or when ctx ends. The next call of Next confirms that the
	// messages have arrived. Next returns io.EOF after the last message. A message is the concatenation of its buffers; the caller
	// must not change them, because they are shared.
	Next(ctx context.Context) ([]net.Buffers, error)
	Close()
}

// Call is a call of a tool.
type Call struct {
	Tool string
	// Args is a JSON object.
	Args json.RawMessage
	// Request is the id of the request, for the log.
	Request string
	// Wait is how long to wait for the end of the call; 0 waits only until the call is durable.
	Wait time.Duration
	// For is the id of the call that the agent is working on and for which it makes this call, from the header HeaderCall; may be
	// empty.
	For string
}

// HeaderCall is the header with the id of the call that an agent is working on and for which it sends the request. The id has the
// form TASK_…/ATTEMPT/STEP.
const HeaderCall = "Orch-Call"

// Reply is the outcome of a call.
type Reply struct {
	Output json.RawMessage
	// Task is the id of the call's task, Approval the id of an approval that a person must decide, Question the id of a question
	// that a person must answer; each may be empty.
	Task, Approval, Question string
	// Rule is the policy rule that requires the approval.
	Rule string
	// Method is the canonical name of the method; the request may have used another name.
	Method string
}

// Config configures the endpoint. Authenticator is required.
type Config struct {
	Authenticator Authenticator
	// Redact removes secrets from the params and texts in an error, and reports whether it has changed data. Fields with names of
	// secrets are always redacted.
	Redact func(data []byte) (clean []byte, changed bool)
	// Wait is how long a request waits for the end of its call. Default: DefaultWait.
	Wait time.Duration
	// KeepAlive is the interval of comments on an idle stream. Default: DefaultKeepAlive.
	KeepAlive time.Duration
	Logger    *slog.Logger
}

// New returns the handler of the endpoint. The caller sets the timeouts for reading requests and writing responses. New returns
// VALIDATION_ERROR if there is no authenticator.
func New(cfg Config) (http.Handler, error) {
	if cfg.Authenticator == nil {
		return nil, fault.New(fault.ValidationError, "the endpoint needs an authenticator")
	}
	if cfg.Redact == nil {
		cfg.Redact = func(data []byte) ([]byte, bool) { return data, false }
	}
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = DefaultKeepAlive
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg.Authenticator.CheckOrigin(&endpoint{cfg}), nil
}
