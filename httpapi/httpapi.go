// Package httpapi is the face of a node for programs that use plain JSON over HTTP: registered agents (Agents), and /rpc,
// bare JSON-RPC 2.0 for programs without MCP.
//
// A method is the name of a tool, its params are the arguments, its result is the structured output. A call is handled like
// tools/call of the MCP face, which this package uses through its interfaces: the same identities, gates and limits, and a
// task in the log. Errors have the codes of the registry (M-4) and the format of the S3 rules, ErrorResponse.
//
// Answers are single JSON documents, whatever the Accept header, except for methods with notifications: if such a
// request has "Accept: text/event-stream", the answer is the first event of a stream of server-sent events.
package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	// Authenticate returns the client of a bearer token: UNAUTHORIZED, TOKEN_EXPIRED.
	Authenticate(ctx context.Context, token string) (Client, error)
	// CheckOrigin refuses requests of web pages of other origins.
	CheckOrigin(next http.Handler) http.Handler
}

// Client is the authenticated sender of a request.
type Client interface {
	// Name returns the actor in the log.
	Name() string
	// Admit counts a request of size bytes: RATE_LIMITED. leave must be called when the request has ended.
	Admit(size int64) (leave func(), err error)
	// Sees reports whether the client sees a method.
	Sees(method string) bool
	// Unseen records that a call was refused because the client does not see its method.
	Unseen(method string, params json.RawMessage)
	// Nearest returns the method with the most similar name; empty for none.
	Nearest(method string) string
	// Call calls a tool. Task and Approval of the reply may also be set beside an error.
	Call(ctx context.Context, c Call) (Reply, error)
	// Listens reports whether a method sends notifications. Listen is Call for such a method; the listener receives
	// the notifications. It must be closed, and is nil beside an error.
	Listens(method string) bool
	Listen(ctx context.Context, c Call) (Reply, Listener, error)
}

// Listener receives the notifications that follow a call.
type Listener interface {
	// Next waits for messages until ctx ends, or for a while; then it returns none. The next call confirms that the last ones have
	// arrived. It returns io.EOF after the last message. A message consists of consecutive parts, so that large ones are not
	// copied; they must not be changed.
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
	// Wait is how long to wait for the end; 0 waits only until the call is durable.
	Wait time.Duration
	// For is the call that an agent works on and makes this one for, from the header HeaderCall; may be empty.
	For string
}

// HeaderCall is the header with the call that an agent works on and sends a request for: TASK_…/ATTEMPT/STEP.
const HeaderCall = "Orch-Call"

// Reply is the outcome of a call.
type Reply struct {
	Output json.RawMessage
	// Task is the task of the call, Approval what a person must decide, Question what a person must answer; each may be
	// empty.
	Task, Approval, Question string
	// Rule is the rule that requires the approval.
	Rule string
	// Method is the canonical name of the method, which may have been called by another name.
	Method string
}

// Config configures the endpoint. Authenticator is required.
type Config struct {
	Authenticator Authenticator
	// Redact removes secrets from the params shown in an error. Default: only fields with names of secrets are
	// redacted.
	Redact func(data []byte) (clean []byte, changed bool)
	// Wait is how long a request waits for the end of its call. Default: DefaultWait.
	Wait time.Duration
	// KeepAlive is the interval of comments on an idle stream. Default: DefaultKeepAlive.
	KeepAlive time.Duration
	Logger    *slog.Logger
}

// New returns the handler. The caller sets the timeouts for reading requests and writing responses. VALIDATION_ERROR without an
// authenticator.
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

// newRequestID returns a new request id, for the log of the node and that of the task (S3-007).
func newRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "req_" + hex.EncodeToString(b[:])
}
