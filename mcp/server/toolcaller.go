package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// ToolCaller calls tools for an identity that uses another interface of the node (JSON-RPC or HTTP). Visibility, permissions,
// the task in the log and the limits are those of tools/call.
type ToolCaller struct {
	s *Server
	c client
}

// ToolCall is one call.
type ToolCall struct {
	Tool string
	// Args is a JSON object, or empty.
	Args json.RawMessage
	// Cause is the id of the request, which is recorded in the first commit of the task.
	Cause string
	// For is the id of the call that the client is working on and for which it makes this call (work.Ref); may be empty.
	For string
	// Wait is how long to wait for the end of the call; 0 waits only until the call is durable.
	Wait time.Duration
}

// ToolReply is the outcome of a call. If Call returns an error, Task, Approval, Rule and Question may be set too.
type ToolReply struct {
	// Output is the structured output of the tool.
	Output json.RawMessage
	// Task is the id of the call's task, empty if there is none.
	Task string
	// Approval is the id of an approval that a person must decide first.
	Approval string
	// Rule is the rule that requires the approval.
	Rule string
	// Question is the id of a question that a person must answer first.
	Question string
	// Tool is the catalogue name of the tool, which may differ from the called name.
	Tool string
}

// ToolCaller returns a caller for the identity of a bearer token. It returns UNAUTHORIZED or TOKEN_EXPIRED for an invalid
// token.
func (s *Server) ToolCaller(ctx context.Context, token string) (*ToolCaller, error) {
	if s.cfg.HTTP.Tokens == nil || token == "" {
		return nil, fault.New(fault.Unauthorized, "a bearer token is required").WithHint("orch token create makes one")
	}
	who, expires, err := s.cfg.HTTP.Tokens.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	if !expires.IsZero() && !s.cfg.Now().Before(expires) {
		return nil, fault.New(fault.TokenExpired, "the token has expired").WithHint("get a new one")
	}
	return s.CallerFor(who), nil
}

// CallerFor returns a caller for an identity that was authenticated by other means than a bearer token.
func (s *Server) CallerFor(who Identity) *ToolCaller {
	return &ToolCaller{s, client{
		sessionless: true, who: who, caps: &mcp.ClientCapabilities{}, note: programNote, reservation: s.memory.newReservation(who.Name),
	}}
}

// programNote is client.note for clients without MCP: their profile is always ProfileAll.
func programNote(name string) string {
	if name == noteProfile {
		return ProfileAll
	}
	return ""
}

// CheckOrigin returns a handler that refuses requests from web pages of foreign origins, and requests to a foreign host name,
// as Handler does.
func (s *Server) CheckOrigin(next http.Handler) http.Handler { return s.checkOrigin(next) }

// Name returns the actor in the log.
func (b *ToolCaller) Name() string { return b.c.who.Name }

// Admit counts a request against the limits that the identity also has for MCP. It returns RATE_LIMITED if they are exceeded.
// size is the number of bytes of the body, -1 if unknown. The caller must call leave after it has written the answer.
func (b *ToolCaller) Admit(size int64) (leave func(), err error) {
	exit, err := b.s.Admit(b.Name(), size)
	if err != nil {
		return nil, err
	}
	return func() { exit(); b.c.reservation.release() }, nil
}

// Sees reports whether the identity sees a tool of that name.
func (b *ToolCaller) Sees(name string) bool {
	tool, ok := b.s.tools.find(b.c, b.s.tools.plainName(name))
	_, own := b.s.tools.ownTool(name)
	return ok && (tool != nil || own)
}

// Unseen reports to Hooks.Refused that a call was refused because the identity sees no tool of that name. It does not check
// the name again.
func (b *ToolCaller) Unseen(name string, args json.RawMessage) {
	_ = b.unseen(b.s.tools.plainName(name), args)
}

func (b *ToolCaller) unseen(name string, args json.RawMessage) error {
	return b.s.reportRefusal(b.c, name, args, fault.New(fault.MethodNotFound, "there is no method %s", quoted(name)))
}

// Nearest returns the visible tool with the most similar name; empty for none.
func (b *ToolCaller) Nearest(name string) string { return b.s.tools.nearestTool(b.c, name) }

// Call calls a tool. All errors have codes: METHOD_NOT_FOUND for a tool that the identity does not see, APPROVAL_REQUIRED
// if a person must decide, TIMEOUT if the call takes longer than call.Wait, and the codes of the tool.
func (b *ToolCaller) Call(ctx context.Context, call ToolCall) (ToolReply, error) {
	return b.call(ctx, b.c, call)
}

func (b *ToolCaller) call(ctx context.Context, c client, call ToolCall) (reply ToolReply, err error) {
	var broken error
	defer c.reservation.doneMaking()
	defer func() {
		if broken != nil {
			err = fault.New(fault.Internal, "internal error")
		}
	}()
	defer b.s.recover(call.Tool, &broken)
	call.Tool = b.s.tools.plainName(call.Tool)
	reply.Tool = call.Tool
	c.call, c.cause = call.For, call.Cause
	if !b.Sees(call.Tool) {
		return reply, b.unseen(call.Tool, call.Args)
	}
	if own, ok := b.s.tools.ownTool(call.Tool); ok {
		reply.Output, err = b.callOwn(ctx, c, &own, call.Args)
		return reply, coded(err)
	}
	if !b.c.who.Role.submits() {
		return reply, b.s.reportRefusal(c, call.Tool, call.Args, fault.New(fault.Forbidden, "%s may not call tools", b.Name()))
	}
	tool, _ := b.s.cfg.Catalogue.Get(call.Tool)
	if tool.Spec().Direct {
		reply.Output, err = b.s.calls.direct(ctx, c, tool, call.Args)
		return reply, coded(err)
	}
	run, err := b.s.calls.start(ctx, c, tool, &mcp.CallToolParamsRaw{Name: call.Tool, Arguments: call.Args})
	if err != nil {
		reply.Output, err = b.s.calls.unlogged(ctx, tool, call.Args, err)
		return reply, coded(err)
	}
	reply.Task = string(run.id)
	err = b.await(ctx, run, call.Wait, &reply)
	return reply, coded(err)
}

// callOwn calls one of the server's own tools.
func (b *ToolCaller) callOwn(ctx context.Context, c client, t *ownTool, args json.RawMessage) (json.RawMessage, error) {
	in, err := t.decodeInput(args)
	if err != nil {
		return nil, b.s.reportRefusal(b.c, t.name, args, err)
	}
	if !t.reads && !b.c.who.Role.submits() {
		return nil, b.s.reportRefusal(b.c, t.name, args, fault.New(fault.Forbidden, "%s may not do that", b.Name()))
	}
	out, err := t.do(ctx, &c, &in)
	if err != nil {
		return nil, err
	}
	return b.c.reservation.inline(mustJSON(out)), nil
}

// await waits for the end of a call, at most for wait. Afterwards the call continues.
func (b *ToolCaller) await(ctx context.Context, r *run, wait time.Duration, reply *ToolReply) error {
	if wait <= 0 {
		return nil
	}
	limit := b.s.cfg.Now().Add(wait)
	for {
		left := limit.Sub(b.s.cfg.Now())
		current, err := b.s.result(ctx, b.c.reservation, api.ResultRequest{ID: r.id, Wait: max(left, 0), Attend: true})
		switch {
		case err != nil:
			return err
		case current.Ended:
			reply.Output, err = b.outcome(ctx, r, current)
			return err
		case current.Waits:
			if err := b.peopleFault(ctx, r.id, reply); err != nil {
				return err
			}
		case left <= 0:
			if limit := b.s.rateLimit(ctx, r.id); limit != nil {
				return limit
			}
			return fault.New(fault.Timeout, "the call is still running as task %s; it goes on by itself", r.id).
				WithHint(toolResult+` with {"task_id": %q} waits for its result`, string(r.id))
		}
	}
}

// rateLimit returns RATE_LIMITED if the call of a task waits for a rate limit, nil otherwise.
func (s *Server) rateLimit(ctx context.Context, id events.TaskID) error {
	t, err := s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	call := callOf(t)
	waits := err == nil && call != nil && call.State == statemachine.StepPending && call.Due != nil
	if !waits || call.Error == nil || call.Error.Code != fault.RateLimited {
		return nil
	}
	return fault.New(fault.RateLimited, "%s; the call is tried again then, as task %s", call.Error.Message, id).WithReason(call.Error.Reason).
		WithRetryAt(*call.Due).WithHint(toolResult+` with {"task_id": %q} waits for its result`, string(id))
}

// outcome returns the output of a finished call, or its error.
func (b *ToolCaller) outcome(ctx context.Context, r *run, current api.ResultReply) (json.RawMessage, error) {
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	id := r.id
	if r.spec.Session == tools.Unsubscribes && current.State == statemachine.Done {
		b.s.subscriptions.listenerEnded(b.c, r)
	}
	if current.State == statemachine.Done && json.Unmarshal(current.Output, &out) == nil && out.Result != nil {
		return b.s.cfg.Hooks.Reveal(ctx, id, b.Name(), out.Result), nil
	}
	t, err := b.s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, err
	}
	call := callOf(t)
	switch {
	case t.State == statemachine.Done && call != nil:
		return orEmpty(b.s.cfg.Hooks.Reveal(ctx, id, b.Name(), call.Output)), nil
	case t.State == statemachine.Cancelled:
		return nil, fault.New(fault.Cancelled, "the call was cancelled%s", because(t.Reason))
	case call != nil && call.Error != nil:
		return nil, call.Error
	case t.Error != nil:
		return nil, t.Error
	default:
		return nil, fault.New(fault.Conflict, "the call has failed%s", because(t.Reason))
	}
}

// coded converts any error to a fault.Error; the code of a protocol error becomes the corresponding code of fault.Registry.
func coded(err error) error {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		for _, e := range fault.Registry() {
			if int64(e.RPC) == wire.Code {
				return fault.New(e.Code, "%s", wire.Message)
			}
		}
	}
	if err == nil {
		return nil
	}
	return fault.From(err)
}

// peopleFault returns the error for a call that waits for people, and sets the ids of the approval or question in reply. It
// returns nil if the call does not wait.
func (b *ToolCaller) peopleFault(ctx context.Context, id events.TaskID, reply *ToolReply) error {
	e, asked, err := b.s.questions.waitError(ctx, b.c, id)
	if err != nil || e == nil {
		return err
	}
	reply.Approval, reply.Rule, reply.Question = asked.approval, asked.rule, asked.question
	return e
}

// Listens reports whether a tool must be called with Listen.
func (b *ToolCaller) Listens(name string) bool {
	name = b.s.tools.plainName(name)
	if b.s.cfg.Stores.Subscriptions == nil || !b.Sees(name) {
		return false
	}
	tool, ok := b.s.cfg.Catalogue.Get(name)
	return ok && tool.Spec().Session == tools.Subscribes
}

// Listen calls a tool that subscribes (tools.Spec.Session), and returns a listener for the messages of the subscription. The
// caller must close the listener. If call.Wait ends before the call does, the subscription is cancelled. Errors are those of
// Call, CONFLICT if the subscription id is in use, and QUOTA_EXCEEDED; the listener is then nil.
func (b *ToolCaller) Listen(ctx context.Context, call ToolCall) (ToolReply, *Listener, error) {
	l := &Listener{s: b.s.subscriptions, name: rand.Text()}
	c := b.c
	c.listener = l
	call.Wait = max(call.Wait, time.Millisecond) // 0 would return before the subscription exists
	reply, err := b.call(ctx, c, call)
	if err != nil {
		l.Close()
		return reply, nil, err
	}
	l.begun = true
	return reply, l, nil
}
