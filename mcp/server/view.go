package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// labelTTL is the label that says how long MCP clients see a task, in milliseconds.
const labelTTL = "mcp/ttl-ms"

func ttlOf(labels map[string]string) (time.Duration, bool) {
	ms, err := strconv.ParseInt(labels[labelTTL], 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil && ms > 0
}

func ttlLabel(ttl time.Duration) map[string]string {
	return map[string]string{labelTTL: strconv.FormatInt(ttl.Milliseconds(), 10)}
}

// reply is a result whose JSON is made here.
type reply struct {
	mcp.ResultBase
	fields object
}

// MarshalJSON writes the fields, with the meta that the SDK may have added.
func (r *reply) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return json.Marshal(r.fields)
	}
	fields := maps.Clone(r.fields)
	meta := object{}
	if own, ok := fields["_meta"].(object); ok {
		maps.Copy(meta, own)
	}
	maps.Copy(meta, r.Meta)
	fields["_meta"] = meta
	return json.Marshal(fields)
}

// taskStatus is what both generations show of a task (S2-060, M-1).
type taskStatus struct {
	id, status, message string
	created, updated    time.Time
	ttl                 time.Duration // 0: unlimited
}

// taskStatusOf is row M-1 of a task.
func taskStatusOf(t api.TaskView) taskStatus {
	ttl, _ := ttlOf(t.Labels)
	return taskStatus{
		id: string(t.ID), status: statemachine.ViewOf(t.State, t.Block).MCP, message: messageOf(t.Reason, t.State),
		created: t.CreatedAt, updated: t.UpdatedAt, ttl: ttl,
	}
}

// taskStatusOfSummary is taskStatusOf for a line of a list.
func taskStatusOfSummary(t api.Summary) taskStatus {
	ttl, _ := ttlOf(t.Labels)
	return taskStatus{
		id: string(t.ID), status: statemachine.ViewOf(t.State, t.Block).MCP, message: messageOf(t.Reason, t.State),
		created: t.CreatedAt, updated: t.UpdatedAt, ttl: ttl,
	}
}

// submittedStatus is the status of a task that was submitted a moment ago.
func submittedStatus(id events.TaskID, at time.Time, ttl time.Duration) taskStatus {
	return taskStatus{id: string(id), status: "working", created: at, updated: at, ttl: ttl}
}

func messageOf(reason string, state statemachine.State) string {
	if reason == "" && state == statemachine.Completed {
		return "verifying"
	}
	return reason
}

// stamp is a time as ISO 8601 in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// v1 is the Task of 2025-11-25.
func (s taskStatus) v1() object {
	o := object{
		"taskId": s.id, "status": s.status, "createdAt": stamp(s.created), "lastUpdatedAt": stamp(s.updated),
		"ttl": nil, "pollInterval": pollInterval.Milliseconds(),
	}
	if s.ttl > 0 {
		o["ttl"] = s.ttl.Milliseconds()
	}
	if s.message != "" {
		o["statusMessage"] = s.message
	}
	return o
}

// v2 is the Task of the extension of 2026-07-28.
func (s taskStatus) v2() object {
	o := s.v1()
	delete(o, "ttl")
	delete(o, "pollInterval")
	o["ttlMs"], o["pollIntervalMs"] = nil, pollInterval.Milliseconds()
	if s.ttl > 0 {
		o["ttlMs"] = s.ttl.Milliseconds()
	}
	return o
}

// handle is the answer to a tools/call that goes on as a task.
func (s taskStatus) handle(modern bool) *reply {
	if !modern {
		return &reply{fields: object{"task": s.v1()}}
	}
	o := s.v2()
	o["resultType"] = "task"
	return &reply{fields: o}
}

// outcome is how a task that is over looks to the caller of a tool: a result, or an error of the protocol.
type outcome struct {
	result *mcp.CallToolResult
	err    *jsonrpc.Error
}

// outcomeOf is the outcome of a task that is over. A task of one call has the result of its tool; that of a plan
// has the plan's outputs.
func (pr *presenter) outcomeOf(t api.TaskView) outcome {
	call := callOf(t)
	switch {
	case t.State == statemachine.Done && call != nil:
		return outcome{result: pr.success(call.Tool, call.Output)}
	case t.State == statemachine.Done:
		return outcome{result: structured(t.Output)}
	case t.State == statemachine.Cancelled:
		return outcome{err: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the task was cancelled" + because(t.Reason)}}
	}
	err, tool := t.Error, ""
	if call != nil {
		tool = call.Tool
		if call.Error != nil {
			err = call.Error
		}
	}
	if err == nil {
		err = fault.New(fault.Conflict, "the task has failed%s", because(t.Reason))
	}
	return pr.failure(tool, err)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// outcomeFor is outcomeOf for an identity, who may see what the log does not hold.
func (pr *presenter) outcomeFor(ctx context.Context, who Identity, t api.TaskView) outcome {
	if call := callOf(t); call != nil {
		call.Output = pr.cfg.Reveal(ctx, t.ID, who.Name, call.Output)
	} else {
		t.Output = pr.cfg.Reveal(ctx, t.ID, who.Name, t.Output)
	}
	return pr.outcomeOf(t)
}

// callOf is the only call of a task that was made for one, nil for a plan.
func callOf(t api.TaskView) *api.StepView {
	for i := range t.Steps {
		if t.Steps[i].Key == plan.CallID {
			return &t.Steps[i]
		}
	}
	return nil
}

// toolOfTask is the tool of a task that was made for one call, empty for a plan.
func toolOfTask(t api.TaskView) string {
	if call := callOf(t); call != nil {
		return call.Tool
	}
	return ""
}

// success is the result of a tool that has ended well.
func (pr *presenter) success(name string, out json.RawMessage) *mcp.CallToolResult {
	tool, _ := pr.cfg.Catalogue.Get(name)
	if r, ok := tool.(tools.Replier); ok {
		result := &mcp.CallToolResult{}
		if json.Unmarshal(r.Reply(out), result) == nil {
			return result
		}
	}
	result := structured(out)
	if t, ok := tool.(tools.Texter); ok {
		result.Content = []mcp.Content{&mcp.TextContent{Text: t.Text(out)}}
	}
	return result
}

// structured is a result that shows a JSON object, as data and as text.
func structured(out json.RawMessage) *mcp.CallToolResult {
	if len(out) == 0 || string(out) == "null" {
		out = json.RawMessage("{}")
	}
	return &mcp.CallToolResult{StructuredContent: out, Content: []mcp.Content{&mcp.TextContent{Text: string(out)}}}
}

// failure is how a call that did not end well looks: an error inside of the result, which models can read.
// Only a fault of orch itself is an error of the protocol (S3-144).
func (pr *presenter) failure(name string, err *fault.Error) outcome {
	err = err.Rewrite(secrets.Clean)
	if err.Code == fault.Internal {
		return outcome{err: rpcError(err)}
	}
	text := string(mustJSON(errorObject(err)))
	if tool, ok := pr.cfg.Catalogue.Get(name); ok && tools.SourceName(err.Code) != "" && slices.Contains(tool.Spec().Errors, tools.SourceName(err.Code)) {
		text = tools.ErrorText(tool.Spec(), err)
	}
	return outcome{result: &mcp.CallToolResult{
		IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, Meta: mcp.Meta{metaError: errorObject(err)},
	}}
}

// errorObject is an error as M-4 wants it shown: code, name, message, data.
func errorObject(err *fault.Error) object {
	return object{"code": err.Code.RPC(), "name": err.Code, "message": err.Message, "data": errorData(err)}
}

func errorData(err *fault.Error) object {
	data := object{}
	for key, value := range map[string]string{"reason": err.Reason, "field": err.Field, "hint": err.Hint} {
		if value != "" {
			data[key] = value
		}
	}
	if !err.RetryAt.IsZero() {
		data["retry_at"] = err.RetryAt.Format(time.RFC3339)
		data["retry_after"] = err.RetryAfter(time.Now())
	}
	return data
}

// rpcError is an error of the protocol for a fault. What does not fit the request, or is not there, is invalid
// params to MCP; codes of orch keep their number.
func rpcError(err error) *jsonrpc.Error {
	f := fault.From(err).Rewrite(secrets.Clean)
	if f.Code == fault.Internal {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
	}
	code := int64(f.Code.RPC())
	if slices.Contains([]fault.Code{fault.NotFound, fault.ValidationError, fault.RequiredField, fault.InvalidFormat}, f.Code) {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: f.Message, Data: mustJSON(errorObject(f))}
}

func invalidParams(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// presenter makes answers of what became of calls, in the form that their client reads.
type presenter struct {
	*core

	tools *toolView
}

// refusal is a call that did not begin: a result that the model can read where the client waits for one (S2-023).
func (pr *presenter) refusal(c client, tool string, err error) (*mcp.CallToolResult, error) {
	var coded *fault.Error
	if !errors.As(err, &coded) || c.task != nil {
		return nil, err
	}
	o := pr.failure(tool, coded)
	return o.unpack()
}
