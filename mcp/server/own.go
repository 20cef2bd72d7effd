package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/statemachine"
)

// ownTool is one of the server's own tools, such as orch_submit.
type ownTool struct {
	name, purpose string
	// reads is false for a tool that changes something.
	reads bool
	// in are the schemas of the inputs by name, need the names of the required inputs.
	in   map[string]*jsonschema.Schema
	need []string
	do   func(ctx context.Context, c *client, in *ownInput) (any, error)
}

// ownInput contains the inputs of all own tools; each tool uses some of them.
type ownInput struct {
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs"`
	Check  bool            `json:"validate_only"`
	Name   string          `json:"name"`
	Key    string          `json:"idempotency_key"`
	Scope  string          `json:"idempotency_scope"`
	For    string          `json:"for"`
	TaskID string          `json:"task_id"`
	Wait   float64         `json:"wait_seconds"`
	Field  string          `json:"field"`
	Offset *int            `json:"offset"`
	Reason string          `json:"reason"`
	States []string        `json:"states"`
	Limit  int             `json:"limit"`
	Cursor string          `json:"cursor"`

	// state and answers are the request state and the answers of a client that repeats a call to answer its questions.
	state   string
	answers mcp.InputResponseMap
}

func textSchema(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func (tt *taskTools) ownTools() []ownTool {
	id := map[string]*jsonschema.Schema{"task_id": textSchema("the id of the task, TASK_…")}
	return []ownTool{
		{
			toolSubmit, "Submit a plan: a task of one or many tool calls, with dependencies, retries and approvals. Answers with its id as soon as it is durable, or with every problem of the plan. Resource " + planSchemaURI + " describes all of a plan.", false,
			map[string]*jsonschema.Schema{
				"plan":              planSchema(),
				"validate_only":     {Type: "boolean", Description: "only check the plan and its inputs, and submit nothing"},
				"inputs":            {Type: "object", Description: "the inputs that the plan declares"},
				"name":              textSchema("a name for lists, in place of that of the plan"),
				"idempotency_key":   textSchema("a second submission with the same key is the same task, unless that has failed"),
				"idempotency_scope": textSchema("how long the task holds that key: forever, until_end, or a duration such as 24h"),
				"for":               textSchema("for registered agents: the call that it is for, as AGENT_CLAIM says in `call`; an agent that has only one need not say it"),
			},
			[]string{"plan"},
			tt.ownSubmit,
		},
		{toolStatus, "Show the state of a task, its steps and why it does not move.", true, id, []string{"task_id"}, tt.ownStatus},
		{
			toolResult, "Wait for the end of a task, and show its result, or a piece of a large one.", true,
			map[string]*jsonschema.Schema{
				"task_id": id["task_id"], "wait_seconds": {Type: "number", Description: "how long to wait at most, 20 by default, 50 at most"},
				"field":  textSchema("only this field of the result"),
				"offset": {Type: "integer", Description: "only a piece of at most 15 KiB, from this byte on"},
			},
			[]string{"task_id"},
			tt.ownResult,
		},
		{
			toolList, "List tasks, the newest first.", true,
			map[string]*jsonschema.Schema{
				"states": {Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: "only tasks in these states"},
				"limit":  {Type: "integer", Description: "1 to 100, 20 by default"}, "cursor": textSchema("next of the page before"),
			},
			nil, tt.ownList,
		},
		{
			toolCancel, "Cancel a task, its children and its running calls.", false,
			map[string]*jsonschema.Schema{"task_id": id["task_id"], "reason": textSchema("why, for the log")},
			[]string{"task_id"},
			tt.ownCancel,
		},
		{toolApprovals, "List the approvals that wait for a person. Only people decide about them, outside of this tool.", true, nil, nil, tt.ownApprovals},
	}
}

// addOwnTools registers the own tools with the SDK.
func (tt *taskTools) addOwnTools() {
	for _, t := range tt.ownTools() {
		if !tt.cfg.Offer.Show.showsOwn(t.name) {
			continue
		}
		closed := false
		tt.sdk.AddTool(&mcp.Tool{
			Name: t.name, Description: t.purpose,
			InputSchema: &jsonschema.Schema{Type: "object", Properties: t.in, Required: t.need, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}},
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.reads, DestructiveHint: &closed, OpenWorldHint: &closed, IdempotentHint: t.reads},
		}, tt.handler(t))
	}
}

// handler returns the handler of an own tool.
func (tt *taskTools) handler(t ownTool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := clientFrom(ctx)
		in, err := t.decodeInput(req.Params.Arguments)
		if err == nil && !t.reads && !c.who.Role.submits() {
			err = fault.New(fault.Forbidden, "%s may not do that", c.who.Name)
		}
		if err != nil {
			err = tt.reportRefusal(c, t.name, req.Params.Arguments, err)
		}
		var out any
		if err == nil {
			in.readRound(req.Params)
			out, err = t.do(ctx, &c, &in)
		}
		if err != nil {
			return tt.answers.failure(t.name, fault.From(err)).unpack()
		}
		if whole, ok := out.(*mcp.CallToolResult); ok {
			return whole, nil
		}
		return tt.answers.present(c, resultTask(t, in), t.name, structured(mustJSON(out))), nil
	}
}

// resultTask returns the task from which the client can get omitted data of the result of an own tool, empty for none.
func resultTask(t ownTool, in ownInput) events.TaskID {
	if t.name != toolResult {
		return ""
	}
	return events.TaskID(in.TaskID)
}

// decodeInput decodes and checks the input of an own tool.
func (t ownTool) decodeInput(raw json.RawMessage) (ownInput, error) {
	var in ownInput
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(orEmpty(raw), &given); err != nil {
		return in, fault.New(fault.InvalidFormat, "must be an object").WithField("arguments")
	}
	for name := range given {
		if t.in[name] == nil {
			return in, t.unknownField(name)
		}
	}
	for _, name := range t.need {
		if given[name] == nil {
			return in, fault.New(fault.RequiredField, "is required").WithField(name)
		}
	}
	if err := json.Unmarshal(orEmpty(raw), &in); err != nil {
		field := "arguments"
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			field = wrong.Field
		}
		return in, fault.New(fault.ValidationError, "has a value of the wrong type").WithField(field)
	}
	return in, nil
}

// unknownField returns an error for an input that the tool does not have. Its hint names the likely input, such as task_id for
// taskId.
func (t ownTool) unknownField(name string) error {
	e := fault.New(fault.ValidationError, "is not known").WithField(name)
	known := slices.Sorted(maps.Keys(t.in))
	for _, is := range known {
		if normalizeName(is) == normalizeName(name) {
			return e.WithHint("did you mean %s?", is)
		}
	}
	if hint := spell.Hint(name, known); hint != "" {
		return e.WithHint("%s", hint)
	}
	if len(known) == 0 {
		return e.WithHint("%s takes no input", t.name)
	}
	return e.WithHint("its inputs are %s", strings.Join(known, ", "))
}

// normalizeName returns a name in lower case without separators: the same for taskId and task_id.
func normalizeName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

func (tt *taskTools) ownSubmit(ctx context.Context, c *client, in *ownInput) (any, error) {
	if in.Check {
		return tt.plans.validatePlan(*c, in)
	}
	reach, err := tt.clients.rootsOf(ctx, *c)
	if err != nil {
		return nil, err
	}
	r := api.SubmitRequest{
		Plan: in.Plan, Inputs: in.Inputs, Name: in.Name, IdempotencyKey: in.Key, IdempotencyScope: in.Scope, Actor: c.who.Name, Labels: ttlLabel(tt.cfg.Limits.DefaultTTL),
		Client: clientAbilities(nil, reach, ""), NoSecrets: true, TraceParent: c.traceParent, TraceState: c.traceState,
	}
	c.call = cmp.Or(in.For, c.call)
	if err := tt.tools.restrict(*c, &r); err != nil {
		return nil, err
	}
	task, err := tt.cfg.API.Submit(ctx, r)
	if fault.Has(err, fault.InvalidPlan) {
		return tt.plans.planRefused(*c, in, err)
	}
	if err != nil || !task.Existing {
		return submitted{task, task.ID}, err
	}
	if _, err := tt.taskOf(ctx, c.who, string(task.ID)); err != nil {
		return nil, fault.New(fault.Conflict, "the idempotency key is taken").WithField("idempotency_key").WithHint("choose another key")
	}
	return submitted{task, task.ID}, nil
}

// submitted is the answer of orch_submit. It repeats the id of the task as task_id, the name that the other own tools use.
type submitted struct {
	api.SubmitReply

	TaskID events.TaskID `json:"task_id"`
}

func (tt *taskTools) ownStatus(ctx context.Context, c *client, in *ownInput) (any, error) {
	t, err := tt.ownTask(ctx, c, in)
	if err != nil {
		return nil, err
	}
	if t, err = tt.readWithinMemory(ctx, *c, t); err != nil {
		return nil, err
	}
	if tt.answers.showsAll(*c) {
		c.reservation.extractTask(&t)
	}
	why, err := tt.cfg.API.Explain(ctx, api.GetRequest{ID: t.ID})
	return object{"task": t, "causes": why.Causes}, err
}

// ownTask returns the task named in the input of an own tool. It returns NOT_FOUND for a task that the client may not see, and
// GONE for a task that was visible before (S3-151).
func (tt *taskTools) ownTask(ctx context.Context, c *client, in *ownInput) (api.TaskView, error) {
	t, err := tt.taskOf(ctx, c.who, in.TaskID)
	if !fault.Has(err, fault.NotFound) {
		return t, err
	}
	if past, there := tt.pastTask(ctx, c.who, in.TaskID); there {
		err = fault.New(fault.Gone, "clients saw the task for as long as it was to be shown, until %s", visibleUntil(past).UTC().Format(time.RFC3339)).
			WithHint("the log has it: orch get %s", past.ID)
	}
	e := *fault.From(err)
	e.Field = "task_id"
	return t, &e
}

// ownTaskID is ownTask for a call that waits. It is not inlined, so that the task view does not remain on the stack of each
// waiting call.
//
//go:noinline
func (tt *taskTools) ownTaskID(ctx context.Context, c *client, in *ownInput) (events.TaskID, error) {
	t, err := tt.ownTask(ctx, c, in)
	return t.ID, err
}

func (tt *taskTools) ownList(ctx context.Context, c *client, in *ownInput) (any, error) {
	r := api.ListRequest{Limit: min(max(in.Limit, 0), 100), Cursor: in.Cursor}
	if r.Limit == 0 {
		r.Limit = 20
	}
	if !c.who.Role.seesAll() {
		r.Requestor = c.who.Name
	}
	for _, state := range in.States {
		r.States = append(r.States, statemachine.State(state))
	}
	return tt.cfg.API.List(ctx, r)
}

func (tt *taskTools) ownCancel(ctx context.Context, c *client, in *ownInput) (any, error) {
	t, err := tt.ownTask(ctx, c, in)
	if err != nil {
		return nil, err
	}
	return tt.cfg.API.Cancel(ctx, api.CancelRequest{ID: t.ID, Reason: in.Reason, Actor: c.who.Name})
}

func (tt *taskTools) ownApprovals(ctx context.Context, c *client, _ *ownInput) (any, error) {
	return tt.approvalsFor(ctx, c.who)
}

// taskTools implements the server's own tools, for clients that do not support tasks.
type taskTools struct {
	*core

	tools     *toolView
	answers   *presenter
	plans     *planChecks
	clients   *connections
	questions *questioner
	relays    *relays
}
