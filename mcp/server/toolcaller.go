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

// ToolCaller lets a face that is not MCP call tools for an identity, on the way that tools/call takes: what the identity sees,
// what it may reach, the task in the log and the limits are the same.
type ToolCaller struct {
	s *Server
	c client
}

// ToolCall is one call.
type ToolCall struct {
	Tool string
	// Args is a JSON object, or empty.
	Args json.RawMessage
	// Cause is the id of the request; it stands in the first commit of the task.
	Cause string
	// For is the call that the client holds and makes this one for (work.Ref); empty when it does not say.
	For string
	// Wait is how long to wait for the end of the call at most; 0 only waits until the call is durable.
	Wait time.Duration
}

// ToolReply is what became of a call. Task and Approval are also set beside an error.
type ToolReply struct {
	// Output is the structured output of the tool.
	Output json.RawMessage
	// Task is the task of the call, empty when there is none.
	Task string
	// Approval is what a person has to decide first.
	Approval string
	// Rule is the rule that demands the approval.
	Rule string
	// Question is what a person has to answer first.
	Question string
	// Tool is the name of the tool in the catalogue, which may be another one than that of the call.
	Tool string
}

// ToolCaller returns access for whom a bearer token stands for: UNAUTHORIZED, TOKEN_EXPIRED.
func (s *Server) ToolCaller(ctx context.Context, token string) (*ToolCaller, error) {
	if s.cfg.Tokens == nil || token == "" {
		return nil, fault.New(fault.Unauthorized, "a bearer token is required").WithHint("orch token create makes one")
	}
	who, expires, err := s.cfg.Tokens.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	if !expires.IsZero() && !s.cfg.Now().Before(expires) {
		return nil, fault.New(fault.TokenExpired, "the token has expired").WithHint("get a new one")
	}
	return &ToolCaller{s, client{
		sessionless: true, who: who, caps: &mcp.ClientCapabilities{}, note: programNote, reservation: s.memory.newReservation(who.Name),
	}}, nil
}

// programNote is what the requests of a program note: it gets results as they are in the catalogue.
func programNote(name string) string {
	if name == noteProfile {
		return ProfileAll
	}
	return ""
}

// FromHere refuses requests of web pages of other origins, and those to another host than this one, as the MCP face
// does.
func (s *Server) FromHere(next http.Handler) http.Handler { return s.checkOrigin(next) }

// Name is the actor in the log.
func (b *ToolCaller) Name() string { return b.c.who.Name }

// Admit counts a request of so many bytes in, with those of MCP: RATE_LIMITED when the identity has too many. The bytes
// are those of the body, -1 when that is not known. It is counted out, with the memory of its answer, when that was written.
func (b *ToolCaller) Admit(size int64) (leave func(), err error) {
	exit, err := b.s.Admit(b.Name(), size)
	if err != nil {
		return nil, err
	}
	return func() { exit(); b.c.reservation.release() }, nil
}

// Sees reports whether there is a tool of the name for the identity.
func (b *ToolCaller) Sees(name string) bool {
	tool, ok := b.s.tools.find(b.c, b.s.tools.plainName(name))
	_, own := b.s.tools.ownTool(name)
	return ok && (tool != nil || own)
}

// Unseen notes that a call was refused because the identity sees no tool of the name. Nothing is called, even if there is one by now.
func (b *ToolCaller) Unseen(name string, args json.RawMessage) {
	_ = b.unseen(b.s.tools.plainName(name), args)
}

func (b *ToolCaller) unseen(name string, args json.RawMessage) error {
	return b.s.reportRefusal(b.c, name, args, fault.New(fault.MethodNotFound, "there is no method %s", quoted(name)))
}

// Nearest is the tool that somebody probably means by a name, among those that the identity sees; empty for none.
func (b *ToolCaller) Nearest(name string) string { return b.s.tools.nearestTool(b.c, name) }

// Call calls a tool. All errors are coded: METHOD_NOT_FOUND for a tool that the identity does not see, APPROVAL_REQUIRED
// when a person is asked, TIMEOUT when the call goes on longer than the wait, and those of the call itself.
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

// callOwn calls a tool of the face itself.
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

// await waits for the end of a call. Whoever stops waiting leaves the call alone: it goes on.
func (b *ToolCaller) await(ctx context.Context, r *run, wait time.Duration, reply *ToolReply) error {
	if wait <= 0 {
		return nil
	}
	limit := b.s.cfg.Now().Add(wait)
	for {
		left := limit.Sub(b.s.cfg.Now())
		now, err := b.s.result(ctx, b.c.reservation, api.ResultRequest{ID: r.id, Wait: max(left, 0), Attend: true})
		switch {
		case err != nil:
			return err
		case now.Over:
			reply.Output, err = b.outcome(ctx, r, now)
			return err
		case now.Waits:
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

// rateLimit is the error of a call that waits until a rate limit ends; nil for any other.
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

// outcome is the output of a call that is over, or why it has failed.
func (b *ToolCaller) outcome(ctx context.Context, r *run, now api.ResultReply) (json.RawMessage, error) {
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	id := r.id
	if r.spec.Session == tools.Unsubscribes && now.State == statemachine.Done {
		b.s.subscriptions.listenerEnded(b.c, r)
	}
	if now.State == statemachine.Done && json.Unmarshal(now.Output, &out) == nil && out.Result != nil {
		return b.s.cfg.Reveal(ctx, id, b.Name(), out.Result), nil
	}
	t, err := b.s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, err
	}
	call := callOf(t)
	switch {
	case t.State == statemachine.Done && call != nil:
		return orEmpty(b.s.cfg.Reveal(ctx, id, b.Name(), call.Output)), nil
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

// coded gives an error of the protocol the code of the registry.
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

// peopleFault is the error of a call that waits for people; nil when it does not any more.
func (b *ToolCaller) peopleFault(ctx context.Context, id events.TaskID, reply *ToolReply) error {
	e, asked, err := b.s.questions.waitsForPeople(ctx, b.c, id)
	if err != nil || e == nil {
		return err
	}
	reply.Approval, reply.Rule, reply.Question = asked.approval, asked.rule, asked.question
	return e
}

// Listens reports whether a tool is one of those that Listen calls.
func (b *ToolCaller) Listens(name string) bool {
	name = b.s.tools.plainName(name)
	if b.s.cfg.Subscriptions == nil || !b.Sees(name) {
		return false
	}
	tool, ok := b.s.cfg.Catalogue.Get(name)
	return ok && tool.Spec().Session == tools.Subscribes
}

// Listen calls a tool that subscribes (tools.Spec.Session). What follows from the call is heard from the listener, which
// has to be closed and is nil beside an error: one that is returned while the call goes on ends what the call would have
// begun. Errors: those of Call; CONFLICT and QUOTA_EXCEEDED of the subscriptions that the identity has.
func (b *ToolCaller) Listen(ctx context.Context, call ToolCall) (ToolReply, *Listener, error) {
	l := &Listener{s: b.s.subscriptions, name: rand.Text()}
	c := b.c
	c.listener = l
	call.Wait = max(call.Wait, time.Millisecond) // what goes on by itself is not listened to
	reply, err := b.call(ctx, c, call)
	if err != nil {
		l.Close()
		return reply, nil, err
	}
	l.begun = true
	return reply, l, nil
}
