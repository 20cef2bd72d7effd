package orchestrator

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const (
	maxQueuePage     = 100
	defaultQueuePage = 20
)

// Queue implements api.Tasks.
func (rd *reader) Queue(ctx context.Context, r api.QueueRequest) (api.QueueReply, error) {
	if err := checkQueue(&r); err != nil {
		return api.QueueReply{}, err
	}
	if err := rd.serving(); err != nil {
		return api.QueueReply{}, err
	}
	reply := rd.queueNow(r)
	ids := make([]events.TaskID, len(reply.Tasks))
	asleep := false
	rd.lock()
	for i := range reply.Tasks {
		ids[i] = reply.Tasks[i].ID
		asleep = asleep || rd.engine.asleep[ids[i]] != nil
	}
	rd.unlock()
	if !asleep {
		return reply, nil
	}
	rd.loadSleepers(ctx, ids)
	return rd.queueNow(r), nil
}

// queueNow answers from the index of lists. The index selects tasks by their lines, and the entries in memory decide which agents
// may take them.
func (rd *reader) queueNow(r api.QueueRequest) api.QueueReply {
	reply := api.QueueReply{Tasks: []api.QueuedTask{}}
	var after *api.Summary
	for limit := r.Limit; ; limit = maxQueuePage {
		lines, stats := rd.cfg.Lists.Queue(r, after, limit, rd.now())
		if after == nil {
			reply.Stats = stats
		}
		reply.Tasks = rd.appendQueued(reply.Tasks, r, lines)
		if len(reply.Tasks) == r.Limit || len(lines) < limit {
			return reply
		}
		after = &lines[limit-1]
	}
}

// appendQueued appends the tasks that still match a request, up to its limit.
func (rd *reader) appendQueued(tasks []api.QueuedTask, r api.QueueRequest, lines []api.Summary) []api.QueuedTask {
	rd.lock()
	defer rd.unlock()
	for i := range lines {
		line := &lines[i]
		if len(tasks) == r.Limit || !renew(line, rd.engine) {
			continue // it is not needed, or has ended since
		}
		view := statemachine.ViewOf(line.State, line.Block)
		if q := rd.queuedTask(line, view); matchesStatus(r, view) && matchesAgent(r, q) {
			rd.describeQueued(&q.QueuedTask)
			tasks = append(tasks, q.QueuedTask)
		}
	}
	return tasks
}

// renew brings the line of a task that was open a moment ago up to date. It returns false if the task has ended since. mu must be held.
func renew(line *api.Summary, en *engine) bool {
	e := en.tasks[line.ID]
	if e == nil {
		return en.asleep[line.ID] != nil || en.concurrencyKeys.isUnread(line.ID)
	}
	if t := e.task; t != nil && !e.busy { // else the task may be ahead of the log
		line.State, line.Reason, line.Block, line.Paused = t.State, t.Reason, t.Block, t.Paused
	}
	return e.open
}

// matchesStatus reports whether a task matches the status of a request, which may have changed since the index was asked.
func matchesStatus(r api.QueueRequest, view statemachine.View) bool {
	if r.Status != "" {
		return view.Queue == r.Status
	}
	return r.IncludeAssigned || !view.Assigned
}

// checkQueue validates a request and fills in the defaults.
func checkQueue(r *api.QueueRequest) error {
	if r.Limit == 0 {
		r.Limit = defaultQueuePage
	}
	if r.Limit < 1 || r.Limit > maxQueuePage {
		return fault.New(fault.ValidationError, "must be 1 to %d", maxQueuePage).WithField("limit")
	}
	if r.Priority != "" && !slices.Contains(queuePriorities(), r.Priority) {
		return fault.New(fault.ValidationError, "must be one of %v", queuePriorities()).WithField("priority")
	}
	statuses := []string{api.QueuePending, api.QueueAssigned, api.QueueInProgress, api.QueueBlocked}
	if r.Status != "" && !slices.Contains(statuses, r.Status) {
		return fault.New(fault.ValidationError, "must be one of %v", statuses).WithField("status")
	}
	return nil
}

// queuePriorities returns the priorities, the most urgent first.
func queuePriorities() []string {
	return []string{string(plan.PriorityCritical), string(plan.PriorityHigh), string(plan.PriorityNormal), string(plan.PriorityLow)}
}

// queued is a task of the queue with the fields that filters use.
type queued struct {
	api.QueuedTask

	// wanted selects the agents that may take its current calls, with one entry for each call.
	wanted []*events.Agents
}

// queuedTask returns a task of the queue from its line.
func (rd *reader) queuedTask(line *api.Summary, view statemachine.View) queued {
	q := queued{QueuedTask: api.QueuedTask{
		ID: line.ID, Priority: line.Priority, Status: view.Queue, State: line.State, Block: line.Block,
		Name: line.Name, Reason: line.Reason, Parent: line.Parent, Paused: line.Paused, CreatedAt: line.CreatedAt,
		Type: line.Labels[api.TypeLabel],
	}}
	if e := rd.engine.tasks[line.ID]; e != nil && e.task != nil {
		e.addAgents(&q)
	}
	return q
}

// addAgents adds the agents that may take the current calls of the task (Step.For), and the agent that holds one of these calls.
func (e *entry) addAgents(q *queued) {
	for _, s := range e.task.Live() {
		if s.For == nil {
			continue
		}
		q.Requires, q.wanted = append(q.Requires, s.For.Requires...), append(q.wanted, s.For)
		if l := e.calls.Leases.Get(s.Key); l != nil {
			q.AssignedTo = strings.TrimPrefix(l.Worker, events.AgentPrefix)
		}
	}
	slices.Sort(q.Requires)
	q.Requires = slices.Compact(q.Requires)
}

// describeQueued adds the fields that are not in the line of a task. mu must be held.
func (rd *reader) describeQueued(q *api.QueuedTask) {
	e := rd.engine.tasks[q.ID]
	if e == nil || e.task == nil || e.task.Submitted == nil {
		return // the task is being loaded
	}
	s := e.task.Submitted
	q.Summary, q.Queue, q.Deadline = s.Summary, s.Queue, s.Deadline
	q.DependsOn = slices.Clone(e.task.Unmet)
	if q.Reason == "" {
		q.Reason = rd.waitsFor(e)
	}
}

// matchesAgent reports whether a task matches the agent of a request: the task is assigned to that agent, or it is unassigned
// and the agent may take it. An assigned task matches only if the request names a status or includes assigned tasks. Otherwise
// every task matches a request without an agent.
func matchesAgent(r api.QueueRequest, q queued) bool {
	switch {
	case q.AssignedTo != "" && r.Status == "" && !r.IncludeAssigned:
		return false
	case r.Agent == "":
		return true
	case q.AssignedTo != "":
		return q.AssignedTo == r.Agent
	}
	who := &work.Agent{Name: r.Agent, Type: r.AgentType, Capabilities: r.Capabilities}
	return !slices.ContainsFunc(q.wanted, func(a *events.Agents) bool { return !dispatch.Matches(who, a, "") })
}
