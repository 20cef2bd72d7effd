package registry

import (
	"context"
	"encoding/json"
)

// CallRequest is a call of a tool of a server.
type CallRequest struct {
	Server, Tool string
	// Args is a JSON object; nil for an empty one.
	Args json.RawMessage
	// TraceParent is the position of the call in a trace, as W3C Trace Context writes it; "" for none.
	TraceParent string
	// TraceState is the tracestate beside it; "" for none.
	TraceState string
	// Fit is called before the call is sent, with the definition of the tool on the connection that the call will use. If it
	// returns an error, the call is not sent. It may be nil.
	Fit func(*Tool) error
	// Progress is called with the progress that the server reports; it may be nil. It must return soon, and is not called after
	// Call has returned.
	Progress func(done, total float64, message string)
	// Ask answers a request of the server during the call (elicitation/create or sampling/createMessage) with an MCP result. It
	// may take days. Its context ends when the call or the connection ends. If Ask is nil, all requests are refused.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Task is the Task of an earlier Reply. If it is set, Call waits for that task and ignores Args.
	Task json.RawMessage
	// State and Answers continue a call that has returned Asks. State is that of the Reply, Answers contains an MCP result for
	// each Ask.Key. Tool and Args must be the same as in the first call.
	State   string
	Answers map[string]json.RawMessage
}

// Reply is the outcome of a call. Exactly one of Result, Task and Asks is set.
type Reply struct {
	// Result is the CallToolResult from the server, unchanged except for hidden secrets.
	Result json.RawMessage
	// Task is a handle: the server has turned the call into a task, which runs independently. To wait for the task, call again
	// with CallRequest.Task.
	Task json.RawMessage
	// Asks are requests that must be answered before the call continues (in 2026-07-28, or URLs that the user must visit),
	// sorted by key. To continue, call again with State and Answers.
	Asks  []Ask
	State string
}

// Ask is a request of a server during a call.
type Ask struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Call calls a tool of a server. A result with isError is a Result, not an error. Errors: the error of Fit; ErrToolNotFound or
// ErrToolDisabled for the server; TOOL_DISABLED for a tool that the definition excludes; TOOL_UNAVAILABLE or TIMEOUT, with
// ErrUnanswered if the call was sent; INVALID_PARAMS if the server refuses the arguments; RATE_LIMITED; CANCELLED; ErrTaskLost;
// UNAVAILABLE if the registry is closed.
func (r *Registry) Call(ctx context.Context, c CallRequest) (Reply, error) {
	if err := r.checkUsable(); err != nil {
		return Reply{}, err
	}
	s, ok := r.server(c.Server)
	if !ok {
		return Reply{}, notFound(c.Server)
	}
	if len(c.Task) > 0 {
		return s.awaitTask(ctx, c)
	}
	return s.call(ctx, c)
}

// CancelTask requests a server to cancel the task of an earlier Reply. It returns nil for a finished task. Errors: ErrTaskLost, and
// the errors of Call.
func (r *Registry) CancelTask(ctx context.Context, server string, task json.RawMessage) error {
	if err := r.checkUsable(); err != nil {
		return err
	}
	s, ok := r.server(server)
	if !ok {
		return notFound(server)
	}
	return s.cancelTask(ctx, task)
}
