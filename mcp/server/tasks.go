package server

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// taskParams are the parameters of all task methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
	Cursor string `json:"cursor"`
	// InputResponses is the field of tasks/update.
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
}

// addTaskMethods registers the task methods of both generations. A method that exists in only one generation refuses clients of
// the other.
func (tm *taskMethods) addTaskMethods() error {
	for method, do := range map[string]func(context.Context, client, *taskParams) (*reply, error){
		"tasks/get": tm.getTask, "tasks/result": tm.taskResult, "tasks/list": tm.listTasks,
		"tasks/cancel": tm.cancelTask, "tasks/update": tm.updateTask,
	} {
		err := mcp.AddReceivingCustomMethod(tm.sdk, method, func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*reply, error) {
			c := clientFrom(ctx)
			if p == nil {
				p = &taskParams{}
			}
			if err := checkMethod(c, method); err != nil {
				return nil, err
			}
			return do(ctx, c, p)
		})
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the methods of tasks cannot be added")
		}
	}
	return nil
}

// checkMethod returns an error if the client's version of MCP does not have the method, or if a client of 2026-07-28 has not
// declared the tasks extension.
func checkMethod(c client, method string) error {
	switch {
	case c.older, c.modern && (method == "tasks/result" || method == "tasks/list"), !c.modern && method == "tasks/update":
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not part of this version"}
	case c.modern && !c.knowsTasks():
		return missing(object{"extensions": object{tasksExtension: object{}}})
	}
	return nil
}

// getTask implements tasks/get (S2-062). The reply for a client of 2026-07-28 includes the result and the questions.
func (tm *taskMethods) getTask(ctx context.Context, c client, p *taskParams) (*reply, error) {
	t, err := tm.taskOf(ctx, c.who, p.TaskID)
	if err != nil {
		return nil, err
	}
	if !c.modern {
		if statusOf(t) == "input_required" {
			tm.relays.askOnStanding(c, t.ID)
		}
		return &reply{fields: taskStatusOf(t).v1()}, nil
	}
	fields, err := tm.detailed(ctx, c, t)
	if err != nil {
		return nil, err
	}
	fields["resultType"] = "complete"
	return &reply{fields: fields}, nil
}

// detailed returns a task for 2026-07-28, with its result, its error or its questions.
func (tm *taskMethods) detailed(ctx context.Context, c client, t api.TaskView) (object, error) {
	st := taskStatusOf(t)
	o := outcome{}
	if t.State.Terminal() && t.State != statemachine.Cancelled {
		if o = tm.answers.outcomeFor(ctx, c.who, t); o.err == nil {
			st.status = "completed" // a tool error inside the result is still a result
		}
	}
	fields := st.v2()
	switch {
	case o.result != nil:
		o.result = tm.answers.present(c, t.ID, toolOfTask(t), o.result)
		c.reservation.extractCall(o.result)
		fields["result"] = embeddedResult(o.result)
	case o.err != nil:
		fields["error"] = o.err
	case st.status == "input_required":
		list, err := tm.questions.pending(ctx, c, t.ID)
		if err == nil {
			list, err = tm.questions.whole(ctx, c, list)
		}
		if err != nil {
			return nil, err
		}
		requests := object{}
		for _, q := range list {
			requests[q.id] = object{"method": q.method, "params": q.params}
		}
		fields["inputRequests"] = requests
	}
	return fields, nil
}

// embeddedResult returns a result as it is embedded in a task of 2026-07-28.
func embeddedResult(r *mcp.CallToolResult) object {
	fields := fieldsOf(r)
	fields["resultType"] = "complete"
	return fields
}

// taskResult implements tasks/result: it waits for the end of a task and returns the result of its call (S2-064). Meanwhile it
// sends the questions of the task to the client, on the stream of this request (S2-065).
func (tm *taskMethods) taskResult(ctx context.Context, c client, p *taskParams) (*reply, error) {
	t, err := tm.taskOf(ctx, c.who, p.TaskID)
	if err != nil {
		return nil, err
	}
	var waiter *waiter
	for !t.State.Terminal() {
		current, err := tm.cfg.API.Result(ctx, api.ResultRequest{ID: t.ID, Wait: time.Minute, Attend: true})
		if err != nil {
			return nil, err
		}
		if current.Waits {
			if waiter == nil {
				waiter = tm.relays.join(c, t.ID, true)
				defer waiter.stop()
			}
			if _, err := waiter.wait(ctx, false); err != nil {
				return nil, err
			}
		}
		if t, err = tm.cfg.API.Get(ctx, api.GetRequest{ID: t.ID}); err != nil {
			return nil, err
		}
	}
	if t, err = tm.readWithinMemory(ctx, c, t); err != nil {
		return nil, err
	}
	result, err := tm.answers.outcomeFor(ctx, c.who, t).unpack()
	if err != nil {
		return nil, err
	}
	result = tm.answers.present(c, t.ID, toolOfTask(t), result)
	c.reservation.extractCall(result)
	meta := mcp.Meta{}
	maps.Copy(meta, result.Meta)
	meta[relatedTask] = object{"taskId": string(t.ID)}
	fields := fieldsOf(result)
	fields["_meta"] = object(meta)
	return &reply{fields: fields}, nil
}

// listTasks implements tasks/list: it lists the tasks that the identity sees, the newest first (S2-063).
func (tm *taskMethods) listTasks(ctx context.Context, c client, p *taskParams) (*reply, error) {
	r := api.ListRequest{Limit: pageSize, Cursor: p.Cursor}
	if !c.who.Role.seesAll() {
		r.Requestor = c.who.Name
	}
	got, err := tm.cfg.API.List(ctx, r)
	if err != nil {
		return nil, err
	}
	tasks := []object{}
	for _, t := range got.Tasks {
		if ttl, ok := ttlOf(t.Labels); ok && tm.cfg.Now().After(t.CreatedAt.Add(ttl)) {
			continue
		}
		tasks = append(tasks, taskStatusOfSummary(t).v1())
	}
	fields := object{"tasks": tasks}
	if got.Next != "" {
		fields["nextCursor"] = got.Next
	}
	return &reply{fields: fields}, nil
}

// cancelTask implements tasks/cancel (S2-066). For 2026-07-28 cancelling is idempotent; for 2025-11-25 a finished task is an
// error.
func (tm *taskMethods) cancelTask(ctx context.Context, c client, p *taskParams) (*reply, error) {
	t, err := tm.taskOf(ctx, c.who, p.TaskID)
	if err == nil && !c.who.Role.submits() {
		err = fault.New(fault.Forbidden, "%s may not cancel tasks", c.who.Name)
	}
	if err != nil {
		return nil, err
	}
	if t.State.Terminal() {
		if c.modern {
			return complete(), nil
		}
		return nil, invalidParams("the task is over: " + taskStatusOf(t).status)
	}
	t, err = tm.cfg.API.Cancel(ctx, api.CancelRequest{ID: t.ID, Reason: "cancelled by the client", Actor: c.who.Name})
	if err != nil {
		return nil, err
	}
	if c.modern {
		return complete(), nil
	}
	return &reply{fields: taskStatusOf(t).v1()}, nil
}

func complete() *reply { return &reply{fields: object{"resultType": "complete"}} }

// updateTask implements tasks/update: it delivers answers to questions of a task. It ignores unknown questions.
func (tm *taskMethods) updateTask(ctx context.Context, c client, p *taskParams) (*reply, error) {
	t, err := tm.taskOf(ctx, c.who, p.TaskID)
	if err != nil {
		return nil, err
	}
	list, err := tm.questions.pending(ctx, c, t.ID)
	if err != nil {
		return nil, err
	}
	for _, q := range list {
		if response, ok := p.InputResponses[q.id]; ok {
			if _, err := tm.questions.answer(ctx, c, q, response); err != nil {
				return nil, err
			}
		}
	}
	return complete(), nil
}

// taskMethods implements the methods tasks/*.
type taskMethods struct {
	*core

	answers   *presenter
	questions *questioner
	relays    *relays
}
