package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// newerVersion is the first version of the protocol without sessions.
	newerVersion = "2026-07-28"
	// codeNoResource is the code of the older generation for an unknown resource.
	codeNoResource = -32002
	// taskTTL is the requested time for which the server stores a task.
	taskTTL = 24 * time.Hour
	// maxAsks is the most requests of the server during one call.
	maxAsks = 100
	// busyTries is how often a call is sent while the server is busy, busyDelay the delay before the first retry. The delay
	// doubles for each retry.
	busyTries, busyDelay = 4, 500 * time.Millisecond
)

// call calls a tool of the server.
func (s *server) call(ctx context.Context, c CallRequest) (Reply, error) {
	l, timeout, err := s.callLimits(c.Tool)
	if err != nil {
		return Reply{}, err
	}
	if err := l.waitRate(ctx, s.name, timeout); err != nil {
		return Reply{}, err
	}
	if err := l.gate.acquire(ctx); err != nil {
		return Reply{}, s.notSentError(ctx, c.Tool)
	}
	a, err := s.acquire()
	if err != nil {
		l.gate.release()
		return Reply{}, err
	}
	defer s.release(a)
	if err := s.checkTool(a, c); err != nil {
		l.gate.release()
		return Reply{}, err
	}
	begin := s.r.now()
	f := a.conn.pendingCalls.add(ctx, a.redactCall(c), func(f *pendingCall) {
		f.token, f.semaphore, f.held, f.open = newToken(), l.gate, true, true
		f.limit(a.timeout)
	})
	defer f.remove()
	reply, err := a.send(f, s.traitOf(a, c.Tool))
	s.countCall(begin, err != nil || isError(reply.Result))
	if err != nil {
		if f.overtime() {
			err = errOvertime
		}
		return Reply{}, s.callError(ctx, a, s.name+"__"+c.Tool, err)
	}
	if reply.Result != nil {
		reply.Result = a.redact(reply.Result)
	}
	for i := range reply.Asks {
		reply.Asks[i].Params = a.redact(reply.Asks[i].Params)
	}
	return reply, nil
}

// callLimits returns the limits and the timeout for calls of a tool, or an error if the tool cannot be called now.
func (s *server) callLimits(tool string) (*limits, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unavailable(); err != nil {
		return nil, 0, err
	}
	if !s.live.def.offers(tool) {
		return nil, 0, fault.New(fault.ToolDisabled, "the definition of the MCP server %s leaves the tool %s out", s.name, tool).
			WithField("tools")
	}
	return s.limits, s.live.timeout, nil
}

// checkTool calls CallRequest.Fit with the definition of the tool on the connection. It returns TOOL_UNAVAILABLE if the connection
// does not have the tool.
func (s *server) checkTool(a *activeSession, c CallRequest) error {
	if c.Fit == nil {
		return nil
	}
	s.mu.Lock()
	list := a.tools
	s.mu.Unlock()
	i := slices.IndexFunc(list, func(t *Tool) bool { return t.Name == c.Tool })
	if i < 0 {
		return fault.New(fault.ToolUnavailable, "the MCP server %s does not offer the tool %s any more", s.name, c.Tool)
	}
	return c.Fit(list[i])
}

func (s *server) traitOf(a *activeSession, tool string) trait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.traits[tool]
}

// notSentError returns the error if ctx has ended before a call was sent.
func (s *server) notSentError(ctx context.Context, tool string) error {
	return fault.Wrap(fault.CodeOf(ctx.Err()), ctx.Err(), "the call of "+s.name+"__"+tool+" was given up")
}

// rejected is the error of the SDK for a request that the transport has not sent.
var rejected = jsonrpc.Error{Code: -32005, Message: "rejected by transport"}

// callError converts the error of a request to a fault. It hides the secrets of the definition. what names the called tool or
// method.
func (s *server) callError(ctx context.Context, a *activeSession, what string, err error) error {
	rpcErr, answered := errors.AsType[*jsonrpc.Error](err)
	answered = answered && (rpcErr.Code != rejected.Code || rpcErr.Message != rejected.Message)
	switch {
	case errors.Is(err, errOvertime):
		return fault.Wrap(fault.Timeout, errors.Join(ErrUnanswered, context.DeadlineExceeded), what+" did not answer within "+a.timeout.String())
	case ctx.Err() != nil:
		return fault.Wrap(fault.CodeOf(ctx.Err()), errors.Join(ctx.Err(), ErrUnanswered), "the call of "+what+" was given up")
	case answered:
		return fault.New(codeOf(rpcErr), "the call of %s failed: %s", what, a.conceal(rpcErr.Message))
	}
	text := strings.ReplaceAll(reasonOf(explain(err, a.conn.link)), alias, "")
	failed := fault.New(fault.ToolUnavailable, "the call of %s failed: %s", what, a.conceal(text))
	if !unsent(err) {
		failed.Err = ErrUnanswered
	}
	return failed
}

// codeOf returns the fault code for an error response of a server.
func codeOf(rpcErr *jsonrpc.Error) fault.Code {
	switch rpcErr.Code {
	case jsonrpc.CodeInvalidParams:
		return fault.InvalidParams
	case codeNoResource:
		return fault.NotFound
	default:
		return fault.ToolFailed
	}
}

// unsent reports whether a request certainly did not reach its server.
func unsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, mcp.ErrConnectionClosed) || ok && dial.Op == "dial"
}

// modern reports whether the connection uses the newer generation of the protocol.
func (c *connection) modern() bool {
	return c.session.InitializeResult().ProtocolVersion >= newerVersion
}

// send sends a call. It retries the call if the server is busy.
func (a *activeSession) send(f *pendingCall, t trait) (Reply, error) {
	c := f.call
	o := requestMeta{name: c.Tool, headers: t.headersOf(c.Args), token: f.token}
	asTask := t.task && a.conn.supportsTasks && !a.conn.modern()
	state := c.State
	for try := range busyTries {
		if try > 0 {
			_ = pause.For(f.ctx, busyDelay<<(try-1))
		}
		raw, err := a.conn.request(f.ctx, "tools/call", a.params(f, state, asTask), o)
		if asks := urlsOf(err); len(asks) > 0 {
			return Reply{Asks: asks}, nil
		}
		if err != nil {
			return Reply{}, err
		}
		reply, again, err := a.readReply(f, raw, asTask)
		if err != nil || !again {
			return reply, err
		}
		state = reply.State
	}
	return Reply{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is too busy"}
}

// params returns the parameters of a call.
func (a *activeSession) params(f *pendingCall, state string, asTask bool) *rawParams {
	c := f.call
	p := &rawParams{fields: object{"name": c.Tool, "arguments": json.RawMessage("{}")}}
	p.Meta = mcp.Meta{"progressToken": f.token}
	if c.TraceParent != "" {
		p.Meta["traceparent"] = c.TraceParent
	}
	if c.TraceState != "" {
		p.Meta["tracestate"] = c.TraceState
	}
	if len(c.Args) > 0 {
		p.fields["arguments"] = c.Args
	}
	if asTask {
		p.fields["task"] = object{"ttl": taskTTL.Milliseconds()}
	}
	if state != "" {
		p.fields["requestState"] = state
	}
	if len(c.Answers) > 0 && a.conn.modern() {
		p.fields["inputResponses"] = c.Answers
	}
	return p
}

// urlsOf returns the URLs that the user must visit before the server accepts a call, as elicitations. The answers need not be sent
// to the server, which knows itself whether the user has visited the URLs.
func urlsOf(err error) []Ask {
	rpcErr, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || rpcErr.Code != mcp.CodeURLElicitationRequired {
		return nil
	}
	var data struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	if json.Unmarshal(rpcErr.Data, &data) != nil || len(data.Elicitations) > maxAsks {
		return nil
	}
	var asks []Ask
	for i, params := range data.Elicitations {
		asks = append(asks, Ask{Key: strconv.Itoa(i), Method: methodElicit, Params: params})
	}
	return asks
}

// readReply decodes the result of a call. again is set if the server is busy, that is, it requires input but asks nothing.
func (a *activeSession) readReply(f *pendingCall, raw json.RawMessage, asTask bool) (reply Reply, again bool, err error) {
	var r struct {
		taskState

		ResultType    string             `json:"resultType"`
		Task          *taskState         `json:"task"`
		InputRequests map[string]request `json:"inputRequests"`
		RequestState  string             `json:"requestState"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		r.ResultType, r.Task = "", nil // a tool result with different types of these fields
	}
	modern := a.conn.modern()
	switch {
	case modern && r.ResultType == "task":
		reply.Task, err = r.handle(newerVersion, f)
	case asTask && r.Task != nil:
		reply.Task, err = r.Task.handle(olderVersion, f)
	case modern && r.ResultType == "input_required":
		reply.State = r.RequestState
		reply.Asks, err = inputRequests(r.InputRequests)
		again = len(reply.Asks) == 0
	default:
		reply.Result = raw
	}
	return reply, again, err
}

// request is a request of a server to its client.
type request struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// inputRequests returns requests as Asks, sorted by key. It returns an error for unsupported methods, or too many requests.
func inputRequests(requests map[string]request) ([]Ask, error) {
	if len(requests) > maxAsks {
		return nil, fmt.Errorf("the server asks more than %d things", maxAsks)
	}
	var asks []Ask
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r := requests[key]
		if r.Method != methodElicit && r.Method != methodSample {
			return nil, fmt.Errorf("the server asks for %.80q, which was not offered", r.Method)
		}
		asks = append(asks, Ask{Key: key, Method: r.Method, Params: r.Params})
	}
	return asks, nil
}
