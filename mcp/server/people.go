package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// pendingDecisions contains the ids of an approval and of a question that a task waits for, and the rule that requires the
// approval (S0-004). All may be empty.
type pendingDecisions struct{ approval, rule, question string }

// fields returns the non-empty ids by their JSON names.
func (p pendingDecisions) fields() object {
	o := object{}
	for name, value := range map[string]string{"approval_id": p.approval, "rule": p.rule, "question_id": p.question} {
		if value != "" {
			o[name] = value
		}
	}
	return o
}

// waitError returns the error e that reports that a task waits for people, and the decisions that the task waits for. e is nil if
// the task does not wait for people.
func (qs *questioner) waitError(ctx context.Context, c client, id events.TaskID) (e *fault.Error, asked pendingDecisions, err error) {
	current, err := qs.cfg.API.Result(ctx, api.ResultRequest{ID: id, Attend: true})
	if err != nil || !current.Waits {
		return nil, asked, err
	}
	t, err := qs.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, asked, err
	}
	if doubts := doubtsOf(t); len(doubts) > 0 {
		return fault.New(fault.InDoubt, "nobody knows whether the call of task %s has happened; a person decides", id).
			WithHint("look, and say it with: orch resolve %s %s", id, doubts[0].step), asked, nil
	}
	e = fault.New(fault.ApprovalRequired, "the call waits for a person; it goes on by itself as task %s once that is settled", id).
		WithHint("orch explain %s says what for", id)
	if len(t.Questions) > 0 {
		asked.question = t.Questions[0].ID
		e = e.WithHint("a person answers with: orch answer %s", asked.question)
	}
	got, err := qs.cfg.API.Approvals(ctx, api.ApprovalsRequest{Task: id})
	for _, a := range got.Approvals {
		if a.Status == statemachine.ApprovalPending {
			asked.approval, asked.rule = a.ID, ruleOf(a)
			return e.WithHint("a person decides with: orch approve %s; then %s with {\"task_id\": %q} has the result", a.ID, cmp.Or(qs.tools.nameFor(c, toolResult), toolResult), string(id)), asked, err
		}
	}
	return e, asked, err
}

// ruleOf returns the policy rule that requires an approval; empty if a plan or a tool has requested the approval.
func ruleOf(a api.ApprovalView) string {
	var details struct {
		Rule string `json:"rule"`
	}
	decode(a.Details, &details)
	return details.Rule
}

// resultWhileWaiting returns the result of a call that waits for people whom the client of the call cannot ask. refused is
// the error with which the node refused an answer, or nil. The result is nil if the call does not wait for people.
func (qs *questioner) resultWhileWaiting(ctx context.Context, c client, r *run, refused error) (*mcp.CallToolResult, error) {
	e, asked, err := qs.waitError(ctx, c, r.id)
	if err != nil || e == nil {
		return nil, err
	}
	if c.knowsTasks() && r.spec.Tasks != tools.NoTask {
		return nil, &taskStartedError{submittedStatus(r.id, r.at, r.ttl)}
	}
	if c.modern && asked.question != "" {
		return nil, qs.cancelUnanswerable(ctx, c, r)
	}
	if refused != nil {
		e.Message = "the answer was refused (" + fault.From(refused).Message + "), and " + e.Message
	}
	e.Reason = cmp.Or(asked.approval, asked.question, string(r.id))
	result, err := qs.answers.failure(r.spec.Name, e).unpack()
	if err != nil {
		return nil, err
	}
	more := asked.fields()
	more["task_id"] = string(r.id)
	withData(result, more)
	result.Meta[metaTask] = string(r.id)
	return result, nil
}

// withData adds fields to the error data of a result.
func withData(result *mcp.CallToolResult, more object) {
	shown, ok := result.Meta[metaError].(object)
	if !ok {
		return
	}
	data, _ := shown["data"].(object)
	maps.Copy(data, more)
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok && json.Valid([]byte(text.Text)) {
			text.Text = string(mustJSON(shown))
		}
	}
}

// cancelUnanswerable cancels a call whose client, which uses MCP version 2026-07-28, has not declared the capabilities to answer
// the questions of the call. It returns the error that names the missing capabilities.
func (qs *questioner) cancelUnanswerable(ctx context.Context, c client, r *run) error {
	asked, err := qs.cfg.API.Get(ctx, api.GetRequest{ID: r.id})
	if err != nil {
		return err
	}
	need := object{}
	for _, q := range asked.Questions {
		need[q.Kind] = object{}
	}
	_, err = qs.cfg.API.Cancel(ctx, api.CancelRequest{ID: r.id, Reason: "the client cannot answer what the call asks", Actor: c.who.Name})
	if err != nil {
		return err
	}
	return missing(need)
}
