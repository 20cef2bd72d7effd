package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// handedBackField is the only field in the result of a call that is handed back.
const handedBackField = "handed_back"

// handedBack describes a call that is handed back: it has not finished in time, and continues while its caller no longer waits.
type handedBack struct {
	TaskID events.TaskID `json:"task_id"`
	// Step is the key of the call's step, if the task has several steps.
	Step string `json:"step,omitempty"`
	// Status is the status of the task in terms of MCP.
	Status string `json:"status"`
	// WaitsFor is running, person, agent, worker, time, task, resume or store.
	WaitsFor string `json:"waits_for"`
	// Reason explains WaitsFor in a sentence.
	Reason string `json:"reason"`
	// PollIntervalMs is the recommended interval for polling, Next the call to poll with.
	PollIntervalMs int64     `json:"poll_interval_ms"`
	Next           *nextCall `json:"next,omitempty"`
}

// nextCall is a tool call with which the client continues.
type nextCall struct {
	Tool      string `json:"tool"`
	Arguments object `json:"arguments"`
}

// waitKinds maps the kind of a cause (api.Cause) to WaitsFor.
func waitKinds() map[string]string {
	return map[string]string{
		"approval": "person", "question": "person", "message": "person", "in_doubt": "person", "blocked": "person", "signal": "person",
		"no_worker": "worker", "queued": "worker", "concurrency": "worker",
		"delay": "time", "retry": "time", "timer": "time",
		"child": "task", "dependency": "task",
		"paused": "resume", "node_paused": "resume", "queue_paused": "resume", "tool_paused": "resume",
		"store": "store",
	}
}

// waitsFor returns handedBack.WaitsFor for a cause. forAgent is set if the step of the cause is assigned to an agent.
func waitsFor(cause api.Cause, forAgent bool) string {
	kind := waitKinds()[cause.Kind]
	switch {
	case kind == "worker" && forAgent:
		return "agent"
	case kind == "":
		return "running"
	default:
		return kind
	}
}

// describePending describes an unfinished task: the reason why it waits, and how to get its result.
func (pr *presenter) describePending(ctx context.Context, c client, id events.TaskID, step string) (handedBack, error) {
	h := handedBack{TaskID: id, Step: step, Status: "working", WaitsFor: "running", Reason: "The call is running.", PollIntervalMs: pollInterval.Milliseconds()}
	t, err := pr.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return h, err
	}
	why, err := pr.cfg.API.Explain(ctx, api.GetRequest{ID: id})
	if err != nil {
		return h, err
	}
	h.Status = statusOf(t)
	if cause := causeOf(why.Causes, step); cause != nil {
		h.Reason = cause.Sentence
		h.WaitsFor = waitsFor(*cause, slices.ContainsFunc(t.Steps, func(step api.StepView) bool { return step.Key == cause.Step && step.For != nil }))
	}
	h.Next = cmp.Or(pr.nextCall(c, toolResult, id), pr.nextCall(c, toolStatus, id))
	return h, nil
}

// nextCall returns a call of one of the server's own tools for a task, nil if the client does not see the tool.
func (pr *presenter) nextCall(c client, tool string, id events.TaskID) *nextCall {
	name := pr.tools.nameFor(c, tool)
	if name == "" || !pr.cfg.Offer.Show.showsOwn(tool) || !c.who.Show.showsOwn(tool) {
		return nil
	}
	return &nextCall{name, object{"task_id": string(id)}}
}

// causeOf returns the cause of the given step. If there is none, it returns the first cause of the task, nil if there is none.
func causeOf(causes []api.Cause, step string) *api.Cause {
	for i := range causes {
		if causes[i].Step == step {
			return &causes[i]
		}
	}
	if len(causes) == 0 {
		return nil
	}
	return &causes[0]
}

// text returns the description as text for a model; did is the beginning of its first sentence.
func (h handedBack) text(tool, did string) string {
	text := did + " as task " + string(h.TaskID) + ", by itself. " + h.Reason + " This is not a failure: do not call " + tool + " again, which would do the work twice."
	if h.Next != nil {
		text += " For the result call " + h.Next.Tool + ` with {"task_id": "` + string(h.TaskID) + `"}.`
	}
	return text
}

// result returns the description as a successful result. It has only handedBackField, which openOutput adds to the output
// schema of each tool.
func (h handedBack) result(tool, did string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		StructuredContent: mustJSON(object{handedBackField: h}),
		Content:           []mcp.Content{&mcp.TextContent{Text: h.text(tool, did)}}, Meta: mcp.Meta{metaTask: string(h.TaskID)},
	}
}

// handBack returns the result for a call that is handed back. A client that supports tasks gets a task; any other client gets a
// description of what the call waits for and how to poll it.
func (pr *presenter) handBack(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	if c.knowsTasks() && r.spec.Tasks != tools.NoTask {
		return nil, &taskStartedError{submittedStatus(r.id, r.at, r.ttl)}
	}
	h, err := pr.describePending(ctx, c, r.id, plan.CallID)
	if err != nil {
		return nil, err
	}
	h.Step = ""
	return h.result(cmp.Or(pr.tools.nameFor(c, r.spec.Name), r.spec.Name), "The call has not ended yet and goes on"), nil
}

// handBackStep is handBack for a call inside a task.
func (pr *presenter) handBackStep(ctx context.Context, c client, id events.TaskID, tool, step string) (*mcp.CallToolResult, error) {
	h, err := pr.describePending(ctx, c, id, step)
	if err != nil {
		return nil, err
	}
	h.Next = cmp.Or(pr.nextCall(c, toolStatus, id), h.Next) // the result of the task is not the result of the step
	return h.result(cmp.Or(pr.tools.nameFor(c, tool), tool), "The call has not ended yet and goes on as step "+step), nil
}

// openOutput extends the output schema of a tool, so that a result has either the required fields of the tool or
// handedBackField.
func openOutput(schema json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(schema, &fields) != nil || len(fields) == 0 {
		return schema
	}
	properties := map[string]json.RawMessage{}
	decode(fields["properties"], &properties)
	properties = maps.Clone(properties)
	properties[handedBackField] = json.RawMessage(`{"type":"object"}`)
	fields["properties"] = mustJSON(properties)
	if required := fields["required"]; len(required) > 0 && fields["anyOf"] == nil {
		fields["anyOf"] = mustJSON([]object{{"required": required}, {"required": []string{handedBackField}}})
		delete(fields, "required")
	}
	return mustJSON(fields)
}

// handleText returns an error result with a text and the id of a task.
func (pr *presenter) handleText(id, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, Meta: mcp.Meta{metaTask: id},
	}
}
