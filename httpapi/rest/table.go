package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/undo"
	"github.com/orch-dev/orch/work"
)

// The MCP tools with which routes are compared (route.tool).
const (
	toolSubmit    = "orch_submit"
	toolCancel    = "orch_cancel"
	toolStatus    = "orch_status"
	toolList      = "orch_list"
	toolApprovals = "orch_approvals"
	// anyTool is for routes without such a tool: a narrowed token may not use them.
	anyTool = "*"
)

// task returns a route of one task. The parameter id of the path selects the task.
func task(verb, path, name, summary string, may access, tool string, do action) route {
	return route{
		verb: verb, path: "/tasks/{id}" + path, name: name, summary: summary, access: may, tool: tool, action: do,
		params: []param{fromPath("id", "id")}, body: verb == http.MethodPost,
	}
}

// plain returns a route without parameters in its path.
func plain(verb, path, name, summary string, may access, tool string, do action) route {
	return route{verb: verb, path: path, name: name, summary: summary, access: may, tool: tool, action: do, body: verb == http.MethodPost}
}

// query adds parameters of the query.
func (r route) query(names ...string) route {
	r.params = slices.Concat(r.params, fromQuery(names...))
	return r
}

// with adds parameters of the path or of headers.
func (r route) with(params ...param) route {
	r.params = slices.Concat(r.params, params)
	return r
}

// hides excludes fields that only the node sets.
func (r route) hides(fields ...string) route {
	r.hidden = append(r.hidden, fields...)
	return r
}

// checks sets route.prepare.
func (r route) checks(prepare func(in any) error) route {
	r.prepare = prepare
	return r
}

// answers sets route.answer.
func (r route) answers(answer func(x *exchange, out any)) route {
	r.answer = answer
	return r
}

// routes returns the table of routes.
func routes() []route {
	return slices.Concat(nodeRoutes(), taskRoutes(), steeringRoutes(), peopleRoutes(), streamRoutes(), policyRoutes(), agentRoutes(), workRoutes(), serverRoutes(), scheduleRoutes(), hookRoutes(), destinationRoutes(), retentionRoutes(), auditRoutes(), storeRoutes(), bulkRoutes())
}

// nodeRoutes returns the routes of the node.
func nodeRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	described := func(_ *api.StatusRequest, r api.StatusReply) (Status, error) { return Status{StatusReply: r}, nil }
	return []route{
		plain(get, "/status", "status", "Describe the node and the caller.", reads, "", then(api.API.Status, described)).streams((*Server).writeStatus, ""),
		plain(get, "/openapi.json", "openapi", "Describe this API as OpenAPI 3.1.", reads, "", nothing()).streams((*Server).writeOpenAPI, ""),
		plain(get, "/queue", "queue", "List the open tasks by priority, then age.", readsAll, toolList, on(api.API.Queue)).
			query("agent", "agent_type", "capabilities", "priority", "status", "type", "include_assigned", "limit", "except"),
		plain(get, "/costs", "costs", "Say what requests to models cost.", reads, toolList, on(api.API.Costs)).query("by", "since", "until", "identity"),
		plain(post, "/pause", "pause", "Pause the node, a queue or a tool.", operates, anyTool, on(api.API.Pause)).hides("id", "checkpoint", "seen_rev"),
		plain(post, "/resume", "resume", "End a pause of the node, a queue or a tool.", operates, anyTool, on(api.API.Resume)).hides("id", "checkpoint", "seen_rev"),
		plain(post, "/archive", "archive", "Archive finished tasks, or report the progress.", operates, anyTool, on(api.API.Archive)),
	}
}

// taskRoutes returns the routes that submit and read tasks.
func taskRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	submit := plain(post, "/tasks", "submit", "Submit a plan.", submits, toolSubmit, on(api.API.Submit)).
		with(fromHeader("Idempotency-Key", "idempotency_key"), fromHeader("Orch-Call", "")).answers(answerSubmitted)
	submit.created = true
	list := plain(get, "/tasks", "list", "List tasks, the newest first.", reads, toolList, on(api.API.List)).
		query("name", "parent", "tree", "session", "requestor", "since", "until", "changed_since", "dead", "stuck", "limit", "cursor")
	list.params = append(list.params, param{"state", inQuery, "states"}, param{"label", inQuery, "labels"})
	imports := plain(post, "/import", "import", "Store the tasks of an export file for reading.", operates, anyTool, action{in: reflect.TypeFor[importOf](), out: reflect.TypeFor[api.ImportReply]()}).
		query("key", "restore").streams((*Server).writeImport, "")
	imports.body, imports.upload = false, exportType
	return []route{
		list, submit, imports,
		plain(get, "/diff", "diff", "Compare two tasks.", reads, toolStatus, on(api.API.Diff)).query("a", "b").checks(needsBoth),
		plain(post, "/tasks:batch", "submit_batch", "Submit many plans.", submits, toolSubmit, on(api.API.SubmitBatch)),
		task(get, "", "get", "Read a task.", reads, toolStatus, on(api.API.Get)).answers(answerTask),
		task(get, "/result", "result", "Wait for the end of a task, and read its result.", reads, toolStatus, on(api.API.Result)).query("wait"),
		task(get, "/history", "history", "Read the commits of a task.", reads, toolStatus, on(api.API.History)).query("from", "limit"),
		task(get, "/replay", "replay", "Compute the state of a task from its history.", reads, toolStatus, on(api.API.Replay)).query("at"),
		task(get, "/explain", "explain", "Say why a task does not move.", reads, toolStatus, on(api.API.Explain)),
		task(get, "/trace", "trace", "Read the spans of a task, as OpenTelemetry in JSON.", reads, toolStatus, on(new(traceReader).read)).query("from", "limit"),
		task(get, "/steps/{step}/conversation", "conversation", "Read the conversation of an agent step with its model.", reads, toolStatus, on(api.API.Conversation)).
			with(fromPath("step", "step")).query("rev", "from", "limit"),
		task(get, "/files", "files", "List a folder of the workspace of a task.", reads, toolStatus, on(api.API.Files)).query("path", "limit", "cursor"),
		task(get, "/files/{path...}", "file", "Read a part of a file in the workspace of a task.", reads, toolStatus, on(api.API.File)).
			with(fromPath("path", "path")).query("offset", "limit"),
		task(get, "/values/{ref}", "value", "Read a part of a large value of a task.", reads, toolStatus, on(api.API.Value)).
			with(fromPath("ref", "ref")).query("offset", "limit"),
		task(get, "/plan", "plan", "Read the normalized plan of a task.", reads, toolStatus, then(api.API.History, rawPlan)).streams((*Server).writePlan, ""),
		task(get, "/export", "export", "Export the history of a task to a signed file.", readsAll, toolStatus, action{in: reflect.TypeFor[exportOf](), out: reflect.TypeFor[struct{}]()}).
			query("tree").streams((*Server).writeExport, exportType),
	}
}

// steeringRoutes returns the routes that change tasks.
func steeringRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		task(post, "/cancel", "cancel", "Cancel a task, its children and its running calls.", submits, toolCancel, on(api.API.Cancel)),
		task(post, "/pause", "pause_task", "Pause a task.", operates, anyTool, on(api.API.Pause)).hides("queue", "tool", "node", "checkpoint"),
		task(post, "/resume", "resume_task", "Resume a task, at a checkpoint or where it is.", operates, anyTool, on(api.API.Resume)).hides("queue", "tool", "node"),
		task(post, "/retry", "retry", "Submit a task that continues a failed or cancelled one.", operates, anyTool, on(api.API.Retry)).hides("via").answers(answerSubmitted).creates(),
		task(post, "/redrive", "redrive", "Continue a task of the dead letter, once.", operates, anyTool, on(api.API.Redrive)).answers(answerSubmitted).creates(),
		task(post, "/fork", "fork", "Submit a task that stands on the recorded results of a task.", operates, anyTool, on(api.API.Fork)).hides("via").answers(answerForked).creates(),
		task(post, "/undo", "undo", "Put back what a session, or one call of it, has changed in the project.", operates, anyTool, on(runUndo)),
		task(post, "/signal", "signal", "Deliver data to a step that waits for a signal.", operates, anyTool, on(api.API.Signal)),
		task(post, "/steps/{step}/say", "say", "Say something to an agent.", submits, toolSubmit, on(api.API.Say)).with(fromPath("step", "step")),
		task(post, "/resolve", "resolve", "Set the outcome of a step in doubt.", operates, anyTool, on(api.API.Resolve)),
		task(post, "/call", "call", "Call a tool inside a task.", operates, anyTool, on(api.API.Call)),
		aboutCheckpoints(task(get, "/checkpoints", "checkpoints", "List the checkpoints of a task.", reads, toolStatus, then(api.API.Checkpoint, checkpointList))),
		aboutCheckpoints(task(post, "/checkpoints", "checkpoint", "Create a checkpoint of a task.", operates, anyTool, on(api.API.Checkpoint))).
			hides("id").checks(needsName),
		aboutCheckpoints(task(get, "/checkpoints/{cp}", "read_checkpoint", "Read a checkpoint of a task.", reads, toolStatus, then(api.API.Checkpoint, snapshotOf))).
			with(fromPath("cp", "id")),
	}
}

// runUndo is undo.Run in the form of a method of the API.
func runUndo(a api.API, ctx context.Context, r undo.Request) (undo.Outcome, error) { //nolint:revive // as method expressions of api.API
	return undo.Run(ctx, a, r)
}

// creates sets route.created.
func (r route) creates() route {
	r.created = true
	return r
}

// aboutCheckpoints renames the field of the task: CheckpointRequest.ID is the id of a checkpoint.
func aboutCheckpoints(r route) route {
	r.params[0].field = "task"
	return r
}

// peopleRoutes returns the routes of approvals and questions.
func peopleRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		plain(get, "/approvals", "approvals", "List approvals, the most urgent first.", reads, toolApprovals, on(api.API.Approvals)).
			query("task", "all", "expired", "submitter", "limit"),
		plain(get, "/approvals/{id}", "approval", "Read an approval.", reads, toolApprovals, then(api.API.Approvals, soleApproval)).
			with(fromPath("id", "id")),
		plain(post, "/approvals/{id}/decide", "decide", "Decide about an approval.", operates, anyTool, on(api.API.Decide)).
			with(fromPath("id", "id")),
		plain(get, "/questions", "questions", "List the open questions of calls.", reads, toolApprovals, on(api.API.Questions)).
			query("task"),
		plain(get, "/questions/{id}", "question", "Read a question.", reads, toolApprovals, then(api.API.Questions, soleQuestion)).
			with(fromPath("id", "id")),
		plain(post, "/questions/{id}/answer", "answer", "Answer a question.", operates, anyTool, on(api.API.Answer)).
			with(fromPath("id", "question")).hides("id"),
	}
}

// streamRoutes returns the routes whose answers are server-sent events.
func streamRoutes() []route {
	one := task(http.MethodGet, "/events", "task_events", "Follow the commits of a task.", reads, toolStatus, on(api.API.Watch)).
		with(fromHeader("Last-Event-ID", "")).query("after").streams((*Server).followTask, sse.MediaType).
		sending(reflect.TypeFor[api.CommitView](), reflect.TypeFor[map[string]work.Progress](), reflect.TypeFor[ended]())
	all := plain(http.MethodGet, "/events", "events", "Follow the changes of all tasks.", reads, toolList, action{in: reflect.TypeFor[eventsOf](), out: reflect.TypeFor[struct{}]()}).
		with(fromHeader("Last-Event-ID", "")).query("after").streams((*Server).followNode, sse.MediaType).
		sending(reflect.TypeFor[api.Summary](), reflect.TypeFor[Inbox](), reflect.TypeFor[reset]())
	return []route{one, all}
}

// streams sets the function that writes the answer, and its content type if it is not JSON.
func (r route) streams(serve func(s *Server, x *exchange, in any) error, media string) route {
	r.stream, r.media = serve, media
	return r
}

// sending sets route.sends.
func (r route) sending(data ...reflect.Type) route {
	r.sends = data
	return r
}

// rawPlan has the type of the answer of GET /tasks/{id}/plan for the OpenAPI document. writePlan writes that answer.
func rawPlan(*api.HistoryRequest, api.HistoryReply) (json.RawMessage, error) { return nil, nil }

// nothing returns the action of a route that does not call the API.
func nothing() action {
	return action{in: reflect.TypeFor[struct{}](), out: reflect.TypeFor[struct{}]()}
}
