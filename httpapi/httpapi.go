// Package httpapi is the face of a node for programs that speak plain JSON over HTTP: registered agents (Agents), and /rpc,
// bare JSON-RPC 2.0 for programs that speak no MCP.
//
// A method is the name of a tool, its params are the arguments, its result is the structured output. The call goes the way
// of tools/call of the MCP face, which is behind the ports of this package: the same identities, gates and limits, and a
// task in the log. Errors have the codes of the registry (M-4) and the form of seed 003, ErrorResponse.
//
// Answers are single JSON documents, whatever a request accepts, but for those of methods that notifications follow: one
// that is asked for with "Accept: text/event-stream" is the first event of a stream of server-sent events.
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

// Path is where the endpoint is served.
const Path = "/rpc"

const (
	// MaxBody is the most bytes of one request.
	MaxBody = 4 << 20
	// DefaultWait is how long a request waits for the end of its call.
	DefaultWait = time.Minute
	// MaxWait is the longest wait that a client may ask for with the header Prefer: wait=SECONDS.
	MaxWait = 10 * time.Minute
	// DefaultKeepAlive is how often a stream with nothing to say has a comment.
	DefaultKeepAlive = 15 * time.Second
)

// Authenticator lets clients in.
type Authenticator interface {
	// Authenticate returns the client that a bearer token stands for: UNAUTHORIZED, TOKEN_EXPIRED.
	Authenticate(ctx context.Context, token string) (Client, error)
	// FromHere refuses requests of web pages of other origins.
	FromHere(next http.Handler) http.Handler
}

// Client is who has sent a request.
type Client interface {
	// Name is the actor in the log.
	Name() string
	// Admit counts a request of so many bytes in: RATE_LIMITED. leave counts it out.
	Admit(size int64) (leave func(), err error)
	// Sees reports whether a method is there for the client.
	Sees(method string) bool
	// Unseen notes that a call was refused because its method is not there for the client.
	Unseen(method string, params json.RawMessage)
	// Nearest is the method that is probably meant by another name; empty for none.
	Nearest(method string) string
	// Call calls a tool. Task and approval of the reply are also set beside an error.
	Call(ctx context.Context, c Call) (Reply, error)
	// Listens reports whether a method is one that notifications follow. Listen is Call for such a method; what follows is
	// heard from the listener, which has to be closed, and is nil beside an error.
	Listens(method string) bool
	Listen(ctx context.Context, c Call) (Reply, Listener, error)
}

// Listener hears what follows from a call.
type Listener interface {
	// Next waits for messages, a while or until ctx ends; then there are none. Asking again says that the last ones have
	// arrived. io.EOF when nothing will follow. A message is in parts, one behind the other, so that what is large is not
	// copied; they are not to be changed.
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
	// Wait is how long to wait for the end; 0 only until the call is durable.
	Wait time.Duration
	// For is the call that an agent holds and makes this one for, from the header HeaderCall; empty when it does not say.
	For string
}

// HeaderCall names the call that an agent holds and sends a request for: TASK_…/ATTEMPT/STEP.
const HeaderCall = "Orch-Call"

// Reply is what became of a call.
type Reply struct {
	Output json.RawMessage
	// Task is the task of the call, Approval what a person has to decide, Question what one has to answer; empty when there
	// is none.
	Task, Approval, Question string
	// Rule is the rule that demands the approval.
	Rule string
	// Method is the usual name of the method, which may have been called by another one.
	Method string
}

// Config says what the endpoint works with. Authenticator is required.
type Config struct {
	Authenticator Authenticator
	// Redact takes secrets out of what an error shows of the params. Default: nothing is taken out but fields that are
	// named like secrets.
	Redact func(data []byte) (clean []byte, changed bool)
	// Wait is how long a request waits for the end of its call. Default: DefaultWait.
	Wait time.Duration
	// KeepAlive is how often a stream with nothing to say says so. Default: DefaultKeepAlive.
	KeepAlive time.Duration
	Logger    *slog.Logger
}

// New returns the handler. Who serves it bounds how long clients may take to send and to read. VALIDATION_ERROR without an
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
	return cfg.Authenticator.FromHere(&endpoint{cfg}), nil
}

// newRequestID names a request, for the log of the node and that of the task (S3-007).
func newRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "req_" + hex.EncodeToString(b[:])
}
