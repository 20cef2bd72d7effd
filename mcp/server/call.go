package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// taskStartedError is the answer to a call that goes on as a task of the client.
type taskStartedError struct{ status taskStatus }

// Error implements error; routeCall turns it into a result.
func (h *taskStartedError) Error() string { return "the call goes on as task " + h.status.id }

// routeCall lets a tools/call through to its tool, and hands its task back where the client gets one.
func (s *Server) routeCall(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, ok := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok {
		return nil, invalidParams("params are missing")
	}
	if c.badTask {
		return nil, invalidParams("task must be an object, such as {\"ttl\": 60000}; ttl is a number of milliseconds")
	}
	if err := s.enter(c, p); err != nil {
		return nil, err
	}
	p.Name = s.plainName(p.Name)
	tool, ok := s.serves(c, p.Name)
	if _, own := s.ownTool(p.Name); !ok || tool == nil && !own {
		_ = s.refuse(c, p.Name, p.Arguments, fault.New(fault.MethodNotFound, "there is no such tool for the client"))
		return nil, s.unknownTool(c, p.Name)
	}
	if err := fits(c, tool); err != nil {
		return nil, err
	}
	result, err := next(ctx, "tools/call", req)
	if h, ok := errors.AsType[*taskStartedError](err); ok {
		s.publish(events.TaskID(h.status.id), p.Name)
		return h.status.handle(c.modern), nil
	}
	return result, err
}

// fits refuses a call whose way of calling its tool does not allow (S2-026).
func fits(c client, tool tools.Tool) error {
	mode := support(tool)
	switch {
	case c.task != nil && mode == tools.NoTask:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool cannot be called as a task"}
	case mode != tools.OnlyTask || c.task != nil || c.knowsTasks():
		return nil
	case c.modern:
		return missing(object{"extensions": object{tasksExtension: object{}}})
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool can be called only as a task"}
	}
}

// codeMissing says that the client has not declared what an answer needs (2026-07-28).
const codeMissing = -32021

func missing(capabilities object) error {
	return &jsonrpc.Error{
		Code: codeMissing, Message: "the client lacks a capability that is required here",
		Data: mustJSON(object{"requiredCapabilities": capabilities}),
	}
}

// callTool calls a tool of the catalogue: inside of a task that the request names, else as a task of its own.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := clientFrom(ctx)
	if !c.who.Role.submits() {
		return nil, s.refuse(c, req.Params.Name, req.Params.Arguments, fault.New(fault.Forbidden, "%s may not call tools", c.who.Name))
	}
	if id, ok := req.Params.Meta[metaTask].(string); ok {
		return s.callInside(ctx, c, id, req.Params)
	}
	tool, ok := s.cfg.Catalogue.Get(req.Params.Name)
	if !ok {
		return nil, invalidParams("unknown tool " + quoted(req.Params.Name))
	}
	if tool.Spec().Direct {
		out, err := s.direct(ctx, c, tool, req.Params.Arguments)
		if err != nil {
			return s.refusal(c, req.Params.Name, fault.From(err))
		}
		return s.shown(c, "", req.Params.Name, s.success(req.Params.Name, out)), nil
	}
	run, err := s.begin(ctx, c, tool, req.Params)
	if err != nil {
		out, err := s.unlogged(ctx, tool, req.Params.Arguments, err)
		if err != nil {
			return s.refusal(c, req.Params.Name, err)
		}
		return s.shown(c, "", req.Params.Name, s.success(req.Params.Name, out)), nil
	}
	run.token = req.Params.GetProgressToken()
	switch {
	case c.task != nil:
		s.announce(c, run)
		return nil, &taskStartedError{begun(run.id, run.at, run.ttl)}
	case run.atOnce(c) && !run.spec.AsksFirst:
		return nil, &taskStartedError{begun(run.id, run.at, run.ttl)}
	}
	result, err := s.attend(ctx, c, run)
	return s.shown(c, run.id, req.Params.Name, result), err
}

// refuse reports a call that the API never hears of, and returns why.
func (s *Server) refuse(c client, tool string, args json.RawMessage, why error) error {
	s.cfg.Refused(c.who.Name, tool, args, why)
	return why
}

// refusal is a call that did not begin: a result that the model can read where the client waits for one (S2-023).
func (s *Server) refusal(c client, tool string, err error) (*mcp.CallToolResult, error) {
	var coded *fault.Error
	if !errors.As(err, &coded) || c.task != nil {
		return nil, err
	}
	o := s.failure(tool, coded)
	return o.unpack()
}

func (o outcome) unpack() (*mcp.CallToolResult, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.result, nil
}

// run is one call of a tool that is a task of its own.
type run struct {
	id events.TaskID
	// session is the one that the call works in, "" for none.
	session events.TaskID
	// resumed is true when a client of 2026-07-28 has called again with its answers.
	resumed bool
	spec    tools.Spec
	at      time.Time
	ttl     time.Duration
	// token is the progress token of the client, nil when it wants to hear of none; told and progress are what it
	// heard last, rev and seen how far the task was looked at.
	token     any
	told      bool
	progress  float64
	rev, seen uint64
	// subscription is the one that a tool of Session acts on.
	subscription string
	// feed brings the messages of that, when it was known as the call began.
	feed *feed
	// answers came with the call itself, to questions that it is known to ask.
	answers mcp.InputResponseMap
}

// atOnce reports whether the client gets the task without waiting.
func (r *run) atOnce(c client) bool {
	return c.knowsTasks() && (r.spec.Tasks == tools.AtOnce || r.spec.Tasks == tools.OnlyTask)
}

// begin submits the task of a call, or goes on with the one whose questions the client answers.
func (s *Server) begin(ctx context.Context, c client, tool tools.Tool, p *mcp.CallToolParamsRaw) (*run, error) {
	r := &run{spec: tool.Spec(), at: s.cfg.Now(), ttl: c.task.ttl(s.cfg.DefaultTTL, s.cfg.MaxTTL)}
	if p.RequestState != "" {
		return r, s.resume(ctx, c, r, p)
	}
	r.answers = p.InputResponses
	args, err := tool.Check(orEmpty(p.Arguments))
	if err != nil {
		return nil, s.refuse(c, p.Name, p.Arguments, err)
	}
	program, err := plan.FromCall(p.Name, args)
	if err != nil {
		return nil, err
	}
	reach, err := s.rootsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	session, err := s.sessionFor(ctx, c, r, args)
	if err != nil {
		return nil, err
	}
	wanted := api.SubmitRequest{
		Plan: program.JSON(), Actor: c.who.Name, Labels: ttlLabel(r.ttl), Client: helper(c.asks(), reach, session),
		Cause: c.cause,
	}
	if err := s.bound(c, &wanted); err != nil {
		return nil, s.refuse(c, p.Name, p.Arguments, err)
	}
	r.id, r.session, err = s.submitInContext(ctx, c, wanted)
	return r, err
}

// submitInContext submits a call in the session of its client, or in a new one when that is over.
func (s *Server) submitInContext(ctx context.Context, c client, r api.SubmitRequest) (id, session events.TaskID, err error) {
	for range 2 {
		if r.Session, err = s.contextOf(ctx, c); err != nil {
			return "", "", err
		}
		r.Shares = r.Session != ""
		var task api.SubmitReply
		task, err = s.cfg.API.Submit(ctx, r)
		if !s.sessionOver(c, err) {
			return task.ID, r.Session, err
		}
	}
	return "", "", err
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// attend waits for the end of a call, lets people decide what it asks, and hands a task back when that takes long.
func (s *Server) attend(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	limit := s.cfg.Now().Add(s.cfg.SyncWait)
	for {
		now, err := s.watch(ctx, c, r, limit.Sub(s.cfg.Now()))
		switch {
		case ctx.Err() != nil:
			s.leave(c, r)
			return nil, fault.From(ctx.Err())
		case err != nil:
			return nil, err
		case now.Over:
			return s.finish(ctx, c, r, now)
		case now.Waits:
			result, err := s.askOn(ctx, c, r)
			if result != nil || err != nil {
				return result, err
			}
		case r.atOnce(c), !s.cfg.Now().Before(limit):
			return s.handBack(ctx, c, r)
		}
	}
}

// finish is the result of a call that is over.
func (s *Server) finish(ctx context.Context, c client, r *run, now api.ResultReply) (*mcp.CallToolResult, error) {
	if r.spec.Session != tools.NoSession && now.State == statemachine.Done {
		s.sessionChanged(c, r)
	}
	if r.atOnce(c) {
		return nil, &taskStartedError{begun(r.id, r.at, r.ttl)}
	}
	if now.State == statemachine.Done && r.spec.Name == toolAskPeople {
		if asks := s.askInSession(ctx, c, r); asks != nil {
			return asks, nil
		}
	}
	if now.State == statemachine.Done {
		var out struct {
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(now.Output, &out) == nil && out.Result != nil {
			return s.success(r.spec.Name, s.cfg.Reveal(ctx, r.id, c.who.Name, out.Result)), nil
		}
	}
	t, err := s.cfg.API.Get(ctx, api.GetRequest{ID: r.id})
	if err != nil {
		return nil, err
	}
	return s.outcomeFor(ctx, c.who, t).unpack()
}

func (s *Server) handleText(id, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, Meta: mcp.Meta{metaTask: id},
	}
}

// leave is what becomes of a call whose request has ended: the client has cancelled it, or is gone. Only a call
// that was cancelled stops (S2-011); a client that is gone finds the task again.
func (s *Server) leave(c client, r *run) {
	if s.life.Err() != nil || !s.withdrawn(c) {
		return
	}
	s.background(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		_, _ = s.cfg.API.Cancel(ctx, api.CancelRequest{ID: r.id, Reason: "the client cancelled the request", Actor: c.who.Name})
	})
}

// callInside calls a tool inside of an existing task, as its state allows (S0-003).
func (s *Server) callInside(ctx context.Context, c client, id string, p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	t, err := s.taskOf(ctx, c.who, id)
	if err != nil {
		return nil, err
	}
	got, err := s.cfg.API.Call(ctx, api.CallRequest{
		ID: t.ID, Tool: p.Name, Args: orEmpty(p.Arguments), Wait: s.cfg.SyncWait, Actor: c.who.Name,
	})
	switch {
	case err != nil:
		return s.refusal(c, p.Name, err)
	case got.Error != nil:
		return s.failure(p.Name, got.Error).unpack()
	case !got.State.Over():
		return s.handBackStep(ctx, c, t.ID, p.Name, got.Step)
	case !c.room.take(len(got.Output)):
		return s.handleText(id, "the call has succeeded in task "+id+" as step "+got.Step+", but too many large answers have not been read. "+
			"Read the others, then call "+toolStatus+` with {"task_id": "`+id+`"}.`), nil
	default:
		return s.shown(c, "", p.Name, s.success(p.Name, got.Output)), nil
	}
}

func quoted(name string) string {
	if len(name) > 128 {
		name = name[:128] + "…"
	}
	return string(mustJSON(name))
}
