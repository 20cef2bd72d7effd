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
	// Fit is called with the tool as the connection that will carry the call offers it: its error ends the call before it is
	// sent. It may be nil.
	Fit func(*Tool) error
	// Progress receives the progress that the server reports; it may be nil. It must return soon, and is not called after Call has
	// returned.
	Progress func(done, total float64, message string)
	// Ask answers requests of the server during the call (elicitation/create, sampling/createMessage) with the MCP
	// result. It may take days; ctx ends with the call, or with the connection. With nil all requests are refused.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Task is the Task of an earlier Reply: the call waits for it, and ignores Args.
	Task json.RawMessage
	// State and Answers, by the keys of the Asks of an earlier Reply, continue the call of that reply. Tool and Args are
	// those of that call.
	State   string
	Answers map[string]json.RawMessage
}

// Reply is the outcome of a call: exactly one of Result, Task, Asks.
type Reply struct {
	// Result is the CallToolResult as the server sent it, with all its fields and numbers.
	Result json.RawMessage
	// Task is the handle of a task that the server has made of the call. The task runs independently: call again with
	// CallRequest.Task to wait for it.
	Task json.RawMessage
	// Asks are requests that must be answered before the call continues (2026-07-28, or a URL that the user must
	// visit), sorted by key: call again with State and Answers.
	Asks  []Ask
	State string
}

// Ask is a request of a server during a call.
type Ask struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Call calls a tool of a server. The content of the reply comes from the server; a result with isError is a Result. Errors:
// the error of Fit; ErrToolNotFound (for the server), ErrToolDisabled; TOOL_DISABLED for a tool that the definition excludes;
// TOOL_UNAVAILABLE, TIMEOUT, both with ErrUnanswered if the call was sent; INVALID_PARAMS if the server refuses the
// arguments; RATE_LIMITED; CANCELLED; ErrTaskLost; UNAVAILABLE if the registry is closed.
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

// CancelTask asks a server to cancel the task of an earlier Reply. A finished task is no error. Errors: ErrTaskLost, and those
// of Call.
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
