package server

import (
	"context"
	"encoding/json"
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

// taskStartedError is returned for a call that continues as a task of the client. routeCall turns it into a result.
type taskStartedError struct{ status taskStatus }

// Error implements error.
func (h *taskStartedError) Error() string { return "the call goes on as task " + h.status.id }

// checkTaskMode returns an error if the client requests a task for a tool that cannot run as a task, or requests none for a
// tool that can only run as a task (S2-026).
func checkTaskMode(c client, tool tools.Tool) error {
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

// codeMissing is the error code of 2026-07-28 for a request that needs a capability that the client has not declared.
const codeMissing = -32021

// missing returns the error for capabilities that the client has not declared.
func missing(capabilities object) error {
	return &jsonrpc.Error{
		Code: codeMissing, Message: "the client lacks a capability that is required here",
		Data: mustJSON(object{"requiredCapabilities": capabilities}),
	}
}

// callTool calls a tool of the catalogue: inside the task that the request names, otherwise as a new task.
func (cl *caller) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := clientFrom(ctx)
	if !c.who.Role.submits() {
		return nil, cl.reportRefusal(c, req.Params.Name, req.Params.Arguments, fault.New(fault.Forbidden, "%s may not call tools", c.who.Name))
	}
	if id, ok := req.Params.Meta[metaTask].(string); ok {
		return cl.callInside(ctx, c, id, req.Params)
	}
	tool, ok := cl.cfg.Catalogue.Get(req.Params.Name)
	if !ok {
		return nil, invalidParams("unknown tool " + quoted(req.Params.Name))
	}
	if tool.Spec().Direct {
		out, err := cl.direct(ctx, c, tool, req.Params.Arguments)
		if err != nil {
			return cl.answers.refusal(c, req.Params.Name, fault.From(err))
		}
		return cl.answers.present(c, "", req.Params.Name, cl.answers.success(req.Params.Name, out)), nil
	}
	run, err := cl.start(ctx, c, tool, req.Params)
	if err != nil {
		out, err := cl.unlogged(ctx, tool, req.Params.Arguments, err)
		if err != nil {
			return cl.answers.refusal(c, req.Params.Name, err)
		}
		return cl.answers.present(c, "", req.Params.Name, cl.answers.success(req.Params.Name, out)), nil
	}
	run.token = req.Params.GetProgressToken()
	switch {
	case c.task != nil:
		cl.reportStatus(c, run)
		return nil, &taskStartedError{submittedStatus(run.id, run.at, run.ttl)}
	case run.atOnce(c) && !run.spec.AsksFirst:
		return nil, &taskStartedError{submittedStatus(run.id, run.at, run.ttl)}
	}
	result, err := cl.await(ctx, c, run)
	return cl.answers.present(c, run.id, req.Params.Name, result), err
}

func (o outcome) unpack() (*mcp.CallToolResult, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.result, nil
}

// run is a tool call and the task that was created for it.
type run struct {
	// id is the id of the task.
	id events.TaskID
	// session is the id of the session task that the call belongs to, "" for none.
	session events.TaskID
	// resumed is set if a client of 2026-07-28 has called again with its answers.
	resumed bool
	spec    tools.Spec
	at      time.Time
	ttl     time.Duration
	// token is the client's progress token, nil if it wants no progress. reported is set once progress was sent; progress is
	// the last value sent. rev is the newest commit that was read, seen the newest version of the progress that was read.
	token     any
	reported  bool
	progress  float64
	rev, seen uint64
	// subscription is the id of the subscription that a tool with Spec.Session changes.
	subscription string
	// feed delivers the messages of the subscription. It is set if the feed existed when the call started.
	feed *feed
	// answers are answers that the client has sent with the call, before it was asked.
	answers mcp.InputResponseMap
}

// atOnce reports whether the call returns a task handle at once, without waiting for the result.
func (r *run) atOnce(c client) bool {
	return c.knowsTasks() && (r.spec.Tasks == tools.AtOnce || r.spec.Tasks == tools.OnlyTask)
}

// start submits the task of a call. If the call carries answers to the questions of an earlier call, start continues the task
// of that call.
func (cl *caller) start(ctx context.Context, c client, tool tools.Tool, p *mcp.CallToolParamsRaw) (*run, error) {
	r := &run{spec: tool.Spec(), at: cl.cfg.Now(), ttl: c.task.ttl(cl.cfg.Limits.DefaultTTL, cl.cfg.Limits.MaxTTL)}
	if p.RequestState != "" {
		return r, cl.questions.resume(ctx, c, r, p)
	}
	r.answers = p.InputResponses
	args, err := tool.Check(orEmpty(p.Arguments))
	if err != nil {
		return nil, cl.reportRefusal(c, p.Name, p.Arguments, err)
	}
	program, err := plan.FromCall(p.Name, args)
	if err != nil {
		return nil, err
	}
	reach, err := cl.clients.rootsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	session, err := cl.subscriptions.sessionFor(ctx, c, r, args)
	if err != nil {
		return nil, err
	}
	wanted := api.SubmitRequest{
		Plan: program.JSON(), Actor: c.who.Name, Labels: ttlLabel(r.ttl), Client: clientAbilities(c.questionKinds(), reach, session),
		Cause: c.cause, TraceParent: c.traceParent, TraceState: c.traceState,
	}
	if err := cl.tools.restrict(c, &wanted); err != nil {
		return nil, cl.reportRefusal(c, p.Name, p.Arguments, err)
	}
	r.id, r.session, err = cl.submitInContext(ctx, c, wanted)
	return r, err
}

// submitInContext submits a call in the session of its client, or in a new one if that session has ended.
func (cl *caller) submitInContext(ctx context.Context, c client, r api.SubmitRequest) (id, session events.TaskID, err error) {
	for range 2 {
		if r.Session, err = cl.sessions.contextOf(ctx, c); err != nil {
			return "", "", err
		}
		r.Shares = r.Session != ""
		var task api.SubmitReply
		task, err = cl.cfg.API.Submit(ctx, r)
		if !cl.sessions.sessionOver(c, err) {
			return task.ID, r.Session, err
		}
	}
	return "", "", err
}

// await waits for the end of a call and asks its questions meanwhile. After Limits.SyncWait it returns a task handle.
func (cl *caller) await(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	limit := cl.cfg.Now().Add(cl.cfg.Limits.SyncWait)
	for {
		current, err := cl.watch(ctx, c, r, limit.Sub(cl.cfg.Now()))
		switch {
		case ctx.Err() != nil:
			cl.requestEnded(c, r)
			return nil, fault.From(ctx.Err())
		case err != nil:
			return nil, err
		case current.Ended:
			return cl.finish(ctx, c, r, current)
		case current.Waits:
			result, err := cl.relays.askDuringCall(ctx, c, r)
			if result != nil || err != nil {
				return result, err
			}
		case r.atOnce(c), !cl.cfg.Now().Before(limit):
			return cl.answers.handBack(ctx, c, r)
		}
	}
}

// finish returns the result of a finished call.
func (cl *caller) finish(ctx context.Context, c client, r *run, current api.ResultReply) (*mcp.CallToolResult, error) {
	if r.spec.Session != tools.NoSession && current.State == statemachine.Done {
		cl.subscriptions.sessionChanged(c, r)
	}
	if r.atOnce(c) {
		return nil, &taskStartedError{submittedStatus(r.id, r.at, r.ttl)}
	}
	if current.State == statemachine.Done && r.spec.Name == toolAskPeople {
		if asks := cl.relays.askInSession(ctx, c, r); asks != nil {
			return asks, nil
		}
	}
	if current.State == statemachine.Done {
		var out struct {
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(current.Output, &out) == nil && out.Result != nil {
			return cl.answers.success(r.spec.Name, cl.cfg.Hooks.Reveal(ctx, r.id, c.who.Name, out.Result)), nil
		}
	}
	t, err := cl.cfg.API.Get(ctx, api.GetRequest{ID: r.id})
	if err != nil {
		return nil, err
	}
	return cl.answers.outcomeFor(ctx, c.who, t).unpack()
}

// requestEnded is called when a request ends before its call, because the client has cancelled the request or has
// disconnected. Only cancelling stops the call (S2-011); a client that has disconnected can find the task again.
func (cl *caller) requestEnded(c client, r *run) {
	if cl.life.Err() != nil || !cl.clients.cancelled(c) {
		return
	}
	cl.background(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		_, _ = cl.cfg.API.Cancel(ctx, api.CancelRequest{ID: r.id, Reason: "the client cancelled the request", Actor: c.who.Name})
	})
}

// callInside calls a tool inside an existing task, if the state of the task allows it (S0-003).
func (cl *caller) callInside(ctx context.Context, c client, id string, p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	t, err := cl.taskOf(ctx, c.who, id)
	if err != nil {
		return nil, err
	}
	got, err := cl.cfg.API.Call(ctx, api.CallRequest{
		ID: t.ID, Tool: p.Name, Args: orEmpty(p.Arguments), Wait: cl.cfg.Limits.SyncWait, Actor: c.who.Name,
	})
	switch {
	case err != nil:
		return cl.answers.refusal(c, p.Name, err)
	case got.Error != nil:
		return cl.answers.failure(p.Name, got.Error).unpack()
	case !got.State.Terminal():
		return cl.answers.handBackStep(ctx, c, t.ID, p.Name, got.Step)
	case !c.reservation.tryReserve(len(got.Output)):
		return cl.answers.handleText(id, "the call has succeeded in task "+id+" as step "+got.Step+", but too many large answers have not been read. "+
			"Read the others, then call "+toolStatus+` with {"task_id": "`+id+`"}.`), nil
	default:
		return cl.answers.present(c, "", p.Name, cl.answers.success(p.Name, got.Output)), nil
	}
}

// caller submits a task for each tool call, and waits for its end while the client waits.
type caller struct {
	*core

	tools         *toolView
	answers       *presenter
	clients       *connections
	subscriptions *subscriber
	sessions      *sessionTasks
	questions     *questioner
	relays        *relays
}

// unlogged handles a call after the submission of its task has failed with why. If the log accepts no commits at present and
// the tool has Spec.Unlogged, it calls the tool without a task; otherwise it returns why.
func (cl *caller) unlogged(ctx context.Context, tool tools.Tool, args json.RawMessage, why error) (json.RawMessage, error) {
	refuses := fault.Has(why, fault.DiskFull) || fault.Has(why, fault.DataLoss) || fault.Has(why, fault.NewerStore) || fault.Has(why, fault.Unavailable)
	if !refuses || tool == nil || !tool.Spec().Unlogged || cl.cfg.Hooks.Unlogged == nil {
		return nil, why
	}
	checked, err := tool.Check(orEmpty(args))
	if err != nil {
		return nil, err
	}
	return cl.cfg.Hooks.Unlogged(ctx, tool, checked)
}

// direct calls a tool with Spec.Direct, without a task. The call ends when the request ends.
func (cl *caller) direct(ctx context.Context, c client, tool tools.Tool, args json.RawMessage) (json.RawMessage, error) {
	checked, err := tool.Check(orEmpty(args))
	if err != nil {
		return nil, cl.reportRefusal(c, tool.Spec().Name, args, err)
	}
	if cl.cfg.Hooks.Direct == nil {
		return nil, fault.New(fault.Forbidden, "%s is for registered agents, who speak over HTTP", tool.Spec().Name).
			WithHint("register with onboarding.registerAgent, and call again at the node with the secret as bearer token")
	}
	return cl.cfg.Hooks.Direct(ctx, c.who, tool, checked)
}
