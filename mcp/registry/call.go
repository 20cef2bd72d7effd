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
	// Fit is asked about the tool as the connection offers it that carries the call: its error ends the call before it is
	// sent. nil for nobody.
	Fit func(*Tool) error
	// Progress is told what the server reports; nil for nobody. It must return soon, and is not called after Call has
	// returned.
	Progress func(done, total float64, message string)
	// Ask answers what the server asks during the call (elicitation/create, sampling/createMessage) with the result
	// of MCP. It may take days; ctx ends with the call, or when the connection is gone. nil refuses all.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Task is that of a former Reply: the call waits for it, and Args do not count.
	Task json.RawMessage
	// State and Answers, by the keys of the Asks of a former Reply, let the call of that go on. Tool and Args are
	// those of the former call.
	State   string
	Answers map[string]json.RawMessage
}

// Reply is what a call came to: exactly one of Result, Task, Asks.
type Reply struct {
	// Result is the CallToolResult as the server sent it, with all its fields and numbers.
	Result json.RawMessage
	// Task is the handle of a task that the server has made of the call. It goes on there without us: call again with
	// CallRequest.Task to wait for it.
	Task json.RawMessage
	// Asks are requests that must be answered before the call goes on (2026-07-28, or a URL that the server sends its
	// user to), sorted by key: call again with State and Answers.
	Asks  []Ask
	State string
}

// Ask is a request of a server during a call.
type Ask struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Call calls a tool of a server. What it replies is data of the server; a result with isError is a Result. Errors:
// that of Fit; ErrToolNotFound (of the server), ErrToolDisabled; TOOL_DISABLED for a tool that the definition leaves out;
// TOOL_UNAVAILABLE, TIMEOUT, both with ErrUnanswered when the call was sent; INVALID_PARAMS when the server refuses the
// arguments; RATE_LIMITED; CANCELLED; ErrTaskLost; UNAVAILABLE when the registry is closed.
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

// CancelTask asks a server to cancel a task of a former Reply. A task that is over is no error. ErrTaskLost, and the
// errors of Call.
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
