package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

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

// Queue implements api.API. It answers from memory, which contains a line with the durable state of every open task (see
// listing).
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

// queueNow answers from the lines in memory.
func (rd *reader) queueNow(r api.QueueRequest) api.QueueReply {
	rd.lock()
	defer rd.unlock()
	q := queueScan{r: r, now: rd.now()}
	for _, line := range rd.engine.listed.open {
		if line.ID == r.Except || isInternalName(line.Name) {
			continue
		}
		view := statemachine.ViewOf(line.State, line.Block)
		q.count(view.Queue, line.CreatedAt)
		if q.mayMatch(line, view) {
			q.insert(rd.queuedTask(line, view))
		}
	}
	for i := range q.head {
		rd.describeQueued(&q.head[i].QueuedTask)
	}
	return q.reply()
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
		Type: line.Labels[typeLabel],
	}}
	if e := rd.engine.tasks[line.ID]; e != nil && e.task != nil {
		e.addAgents(&q)
	}
	return q
}

// typeLabel is the label with the type of work of a task.
const typeLabel = "type"

// addAgents adds the agents that may take the current calls of the task (Step.For), and the agent that holds one of these calls.
func (e *entry) addAgents(q *queued) {
	for key, s := range e.task.Steps {
		if s.For == nil || s.State.Terminal() {
			continue
		}
		q.Requires, q.wanted = append(q.Requires, s.For.Requires...), append(q.wanted, s.For)
		if l := e.calls.Leases[key]; l != nil {
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

// queueScan computes the answer to a request: it counts all tasks of the queue and collects the first tasks that match.
type queueScan struct {
	r   api.QueueRequest
	now time.Time
	// head holds the first matching tasks so far, at most r.Limit.
	head []queued
	all  api.QueueStats
	// wait is the total waiting time of the pending tasks.
	wait time.Duration
}

// mayMatch reports whether a task can be in the answer, judged by its line. This cheap check runs for every task. The expensive
// checks run only for the tasks that pass it.
func (f *queueScan) mayMatch(line *api.Summary, view statemachine.View) bool {
	switch r := &f.r; {
	case r.Status != "" && view.Queue != r.Status, r.Status == "" && !r.IncludeAssigned && view.Assigned:
		return false
	case r.Priority != "" && line.Priority != r.Priority, r.Type != "" && line.Labels[typeLabel] != r.Type:
		return false
	default:
		return len(f.head) < r.Limit || compareQueued(line.Priority, line.CreatedAt, line.ID, &f.head[len(f.head)-1].QueuedTask) < 0
	}
}

// insert inserts a task at its position, unless the filter by agent excludes it.
func (f *queueScan) insert(q queued) {
	if !matchesAgent(f.r, q) {
		return
	}
	at, _ := slices.BinarySearchFunc(f.head, q, func(a, b queued) int { return compareQueued(a.Priority, a.CreatedAt, a.ID, &b.QueuedTask) })
	if len(f.head) == f.r.Limit {
		f.head = f.head[:len(f.head)-1]
	}
	f.head = slices.Insert(f.head, at, q)
}

// count counts a task with a queue status.
func (f *queueScan) count(status string, created time.Time) {
	f.all.Total++
	switch status {
	case api.QueuePending:
		f.all.Pending++
		f.wait += max(f.now.Sub(created), 0)
	case api.QueueAssigned:
		f.all.Assigned++
	case api.QueueInProgress:
		f.all.InProgress++
	default:
		f.all.Blocked++
	}
	if f.all.Oldest == nil || created.Before(*f.all.Oldest) {
		f.all.Oldest = new(created)
	}
}

func (f *queueScan) reply() api.QueueReply {
	if f.all.Pending > 0 {
		f.all.Wait = f.wait / time.Duration(f.all.Pending)
	}
	reply := api.QueueReply{Tasks: make([]api.QueuedTask, len(f.head)), Stats: f.all}
	for i, q := range f.head {
		reply.Tasks[i] = q.QueuedTask
	}
	return reply
}

// compareQueued compares a task with b: the most urgent task comes first, then the oldest.
func compareQueued(priority string, created time.Time, id events.TaskID, b *api.QueuedTask) int {
	return cmp.Or(cmp.Compare(dispatch.Urgency(priority), dispatch.Urgency(b.Priority)), created.Compare(b.CreatedAt), cmp.Compare(id, b.ID))
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
