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

// labelTTL is the label with the time in milliseconds for which MCP clients see a task.
const labelTTL = "mcp/ttl-ms"

func ttlOf(labels map[string]string) (time.Duration, bool) {
	ms, err := strconv.ParseInt(labels[labelTTL], 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil && ms > 0
}

func ttlLabel(ttl time.Duration) map[string]string {
	return map[string]string{labelTTL: strconv.FormatInt(ttl.Milliseconds(), 10)}
}

// reply is a result encoded by this package.
type reply struct {
	mcp.ResultBase
	fields object
}

// MarshalJSON encodes the fields, with the meta that the SDK may have added.
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

// taskStatus contains the fields of a task that both generations of the protocol show (S2-060, M-1).
type taskStatus struct {
	id, status, message string
	created, updated    time.Time
	ttl                 time.Duration // 0: unlimited
}

// taskStatusOf returns the status of a task according to M-1.
func taskStatusOf(t api.TaskView) taskStatus {
	ttl, _ := ttlOf(t.Labels)
	return taskStatus{
		id: string(t.ID), status: statusOf(t), message: messageOf(t.Reason, t.State),
		created: t.CreatedAt, updated: t.UpdatedAt, ttl: ttl,
	}
}

// statusOf returns the status of a task in MCP. A task needs input also if a task below it asks the model of the client.
func statusOf(t api.TaskView) string {
	if slices.ContainsFunc(t.Questions, func(q api.QuestionView) bool { return q.Task != t.ID }) {
		return "input_required"
	}
	return statemachine.ViewOf(t.State, t.Block).MCP
}

// taskStatusOfSummary is taskStatusOf for an entry of a list.
func taskStatusOfSummary(t api.Summary) taskStatus {
	ttl, _ := ttlOf(t.Labels)
	return taskStatus{
		id: string(t.ID), status: statemachine.ViewOf(t.State, t.Block).MCP, message: messageOf(t.Reason, t.State),
		created: t.CreatedAt, updated: t.UpdatedAt, ttl: ttl,
	}
}

// submittedStatus returns the status of a task that was just submitted.
func submittedStatus(id events.TaskID, at time.Time, ttl time.Duration) taskStatus {
	return taskStatus{id: string(id), status: "working", created: at, updated: at, ttl: ttl}
}

func messageOf(reason string, state statemachine.State) string {
	if reason == "" && state == statemachine.Completed {
		return "verifying"
	}
	return reason
}

// stamp formats a time as ISO 8601 in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// v1 returns the Task of 2025-11-25.
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

// v2 returns the Task of the extension of 2026-07-28.
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

// handle returns the answer to a tools/call that continues as a task.
func (s taskStatus) handle(modern bool) *reply {
	if !modern {
		return &reply{fields: object{"task": s.v1()}}
	}
	o := s.v2()
	o["resultType"] = "task"
	return &reply{fields: o}
}

// outcome is a finished task as the caller of a tool sees it: a result, or a protocol error.
type outcome struct {
	result *mcp.CallToolResult
	err    *jsonrpc.Error
}

// outcomeOf returns the outcome of a finished task. The result of a task for one call is the result of its tool; the result of
// a plan is the plan's outputs.
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

// outcomeFor is outcomeOf for an identity, with Hooks.Reveal applied.
func (pr *presenter) outcomeFor(ctx context.Context, who Identity, t api.TaskView) outcome {
	if call := callOf(t); call != nil {
		call.Output = pr.cfg.Hooks.Reveal(ctx, t.ID, who.Name, call.Output)
	} else {
		t.Output = pr.cfg.Hooks.Reveal(ctx, t.ID, who.Name, t.Output)
	}
	return pr.outcomeOf(t)
}

// callOf returns the call of a task that was submitted for one call, nil for a plan.
func callOf(t api.TaskView) *api.StepView {
	for i := range t.Steps {
		if t.Steps[i].Key == plan.CallID {
			return &t.Steps[i]
		}
	}
	return nil
}

// toolOfTask returns the tool of a task that was submitted for one call, empty for a plan.
func toolOfTask(t api.TaskView) string {
	if call := callOf(t); call != nil {
		return call.Tool
	}
	return ""
}

// success returns the result of a successful tool call.
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

// structured returns a result that contains a JSON object as structured content and as text.
func structured(out json.RawMessage) *mcp.CallToolResult {
	if len(out) == 0 || string(out) == "null" {
		out = json.RawMessage("{}")
	}
	return &mcp.CallToolResult{StructuredContent: out, Content: []mcp.Content{&mcp.TextContent{Text: string(out)}}}
}

// failure returns the outcome of a failed call: an error inside the result, which models can read.
// Only a fault of orch itself is a protocol error (S3-144).
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

// errorObject returns an error in the form of M-4: code, name, message, data.
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

// rpcError converts a fault to a protocol error. Validation errors and NOT_FOUND become invalid params, as in MCP; other codes
// keep their JSON-RPC number.
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

// presenter makes answers from the outcomes of calls, in the form that the client expects.
type presenter struct {
	*core

	tools *toolView
}

// refusal returns the answer to a call that was refused before it started: a result that the model can read (S2-023), or err
// itself if the client has requested a task or err has no code.
func (pr *presenter) refusal(c client, tool string, err error) (*mcp.CallToolResult, error) {
	var coded *fault.Error
	if !errors.As(err, &coded) || c.task != nil {
		return nil, err
	}
	o := pr.failure(tool, coded)
	return o.unpack()
}
