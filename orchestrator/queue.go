package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// The statuses of the queue (table M-1).
const (
	QueuePending    = "pending"
	QueueAssigned   = "assigned"
	QueueInProgress = "in_progress"
	QueueBlocked    = "blocked"
)

const (
	maxQueuePage     = 100
	defaultQueuePage = 20
)

// QueueRequest filters the open tasks; zero fields do not filter (S3-110).
type QueueRequest struct {
	// Agent asks for tasks that are assigned to it, and for those of nobody that an agent of this name, of the role
	// AgentType and with Capabilities may take.
	Agent        string   `json:"agent,omitempty"`
	AgentType    string   `json:"agent_type,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Priority     string   `json:"priority,omitempty"`
	// Status is one of the four of M-1. It wins over IncludeAssigned.
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	// IncludeAssigned lists tasks that somebody works on as well; without it only those that wait (S3-112).
	IncludeAssigned bool `json:"include_assigned,omitempty"`
	// Limit is 1 to 100, default 20.
	Limit int `json:"limit,omitempty"`
	// Except is a task that is neither listed nor counted: the one in which somebody looks at the queue.
	Except events.TaskID `json:"except,omitempty"`
}

// QueueReply is the head of the queue: by priority, then by age (S3-113).
type QueueReply struct {
	Tasks []QueuedTask `json:"tasks"`
	Stats QueueStats   `json:"stats"`
}

// QueuedTask is an open task in the queue.
type QueuedTask struct {
	ID events.TaskID `json:"id"`
	// Type, Requires and AssignedTo are those of work that agents take.
	Type       string   `json:"type,omitempty"`
	Requires   []string `json:"requires,omitempty"`
	AssignedTo string   `json:"assigned_to,omitempty"`
	Priority   string   `json:"priority"`
	// Status is column "Sartor queue status" of M-1 for State and Block.
	Status  string             `json:"status"`
	State   statemachine.State `json:"state"`
	Block   string             `json:"block,omitempty"`
	Name    string             `json:"name"`
	Summary string             `json:"summary,omitempty"`
	// Reason is what the task waits for.
	Reason    string        `json:"reason,omitempty"`
	Queue     string        `json:"queue,omitempty"`
	Parent    events.TaskID `json:"parent,omitempty"`
	Paused    bool          `json:"paused,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	Deadline  *time.Time    `json:"deadline,omitempty"`
	// DependsOn are the dependencies that are not done yet.
	DependsOn []events.TaskID `json:"depends_on,omitempty"`

	// wanted are the agents that may take its calls.
	wanted []*events.Agents
}

// QueueStats are those of the whole queue, whatever the request filters.
type QueueStats struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	Assigned   int `json:"assigned"`
	InProgress int `json:"in_progress"`
	Blocked    int `json:"blocked"`
	// Wait is how long the pending tasks have been waiting, on average.
	Wait time.Duration `json:"wait"`
	// Oldest is when the oldest task was made, nil for an empty queue.
	Oldest *time.Time `json:"oldest,omitempty"`
}

// Queue implements API. It is answered from memory: every open task has a line there, which shows what is durable.
func (o *Orchestrator) Queue(ctx context.Context, r QueueRequest) (QueueReply, error) {
	if err := r.check(); err != nil {
		return QueueReply{}, err
	}
	if err := o.serving(); err != nil {
		return QueueReply{}, err
	}
	reply := o.queueNow(r)
	ids := make([]events.TaskID, len(reply.Tasks))
	asleep := false
	o.lock()
	for i := range reply.Tasks {
		ids[i] = reply.Tasks[i].ID
		asleep = asleep || o.asleep[ids[i]] != nil
	}
	o.unlock()
	if !asleep {
		return reply, nil
	}
	o.rouse(ctx, ids)
	return o.queueNow(r), nil
}

// queueNow answers from what memory knows of tasks.
func (o *Orchestrator) queueNow(r QueueRequest) QueueReply {
	o.lock()
	defer o.unlock()
	q := queueFold{r: r, now: o.now()}
	for _, line := range o.listed.waiting {
		if line.ID == r.Except || ownName(line.Name) {
			continue
		}
		view := statemachine.ViewOf(line.State, line.Block)
		q.count(view.Queue, line.CreatedAt)
		if q.may(line, view) {
			q.take(o.queuedTask(line, view))
		}
	}
	for i := range q.head {
		o.describeQueued(&q.head[i])
	}
	return q.reply()
}

func (r *QueueRequest) check() error {
	if r.Limit == 0 {
		r.Limit = defaultQueuePage
	}
	if r.Limit < 1 || r.Limit > maxQueuePage {
		return fault.New(fault.ValidationError, "must be 1 to %d", maxQueuePage).WithField("limit")
	}
	if r.Priority != "" && !slices.Contains(queuePriorities(), r.Priority) {
		return fault.New(fault.ValidationError, "must be one of %v", queuePriorities()).WithField("priority")
	}
	statuses := []string{QueuePending, QueueAssigned, QueueInProgress, QueueBlocked}
	if r.Status != "" && !slices.Contains(statuses, r.Status) {
		return fault.New(fault.ValidationError, "must be one of %v", statuses).WithField("status")
	}
	return nil
}

// queuePriorities are the priorities, the most urgent first.
func queuePriorities() []string {
	return []string{string(plan.PriorityCritical), string(plan.PriorityHigh), string(plan.PriorityNormal), string(plan.PriorityLow)}
}

// queuedTask is a line with what filters look at.
func (o *Orchestrator) queuedTask(line *Summary, view statemachine.View) QueuedTask {
	q := QueuedTask{
		ID: line.ID, Priority: line.Priority, Status: view.Queue, State: line.State, Block: line.Block,
		Name: line.Name, Reason: line.Reason, Parent: line.Parent, Paused: line.Paused, CreatedAt: line.CreatedAt,
		Type: line.Labels[typeLabel],
	}
	if e := o.tasks[line.ID]; e != nil && e.task != nil {
		e.forAgents(&q)
	}
	return q
}

// typeLabel is the label that says of what type the work of a task is.
const typeLabel = "type"

// forAgents says what agents have to be able to do for the task now, and which one has it.
func (e *entry) forAgents(q *QueuedTask) {
	for key, s := range e.task.Steps {
		if s.For == nil || s.State.Over() {
			continue
		}
		q.Requires, q.wanted = append(q.Requires, s.For.Requires...), append(q.wanted, s.For)
		if l := e.leases[key]; l != nil {
			q.AssignedTo = strings.TrimPrefix(l.worker, events.AgentPrefix)
		}
	}
	slices.Sort(q.Requires)
	q.Requires = slices.Compact(q.Requires)
}

// describeQueued adds what only the task itself knows. The lock is held.
func (o *Orchestrator) describeQueued(q *QueuedTask) {
	e := o.tasks[q.ID]
	if e == nil || e.task == nil || e.task.Submitted == nil {
		return // it is being read
	}
	s := e.task.Submitted
	q.Summary, q.Queue, q.Deadline = s.Summary, s.Queue, s.Deadline
	q.DependsOn = slices.Clone(e.task.Unmet)
	if q.Reason == "" {
		q.Reason = o.waitsFor(e)
	}
}

// queueFold counts the whole queue and keeps the first tasks that fit.
type queueFold struct {
	r    QueueRequest
	now  time.Time
	head []QueuedTask
	all  QueueStats
	wait time.Duration
}

// may reports whether a task can be in the answer, as far as its line tells: that is asked of every task, and what costs more
// of few.
func (f *queueFold) may(line *Summary, view statemachine.View) bool {
	switch r := &f.r; {
	case r.Status != "" && view.Queue != r.Status, r.Status == "" && !r.IncludeAssigned && view.Assigned:
		return false
	case r.Priority != "" && line.Priority != r.Priority, r.Type != "" && line.Labels[typeLabel] != r.Type:
		return false
	default:
		return len(f.head) < r.Limit || sooner(line.Priority, line.CreatedAt, line.ID, &f.head[len(f.head)-1]) < 0
	}
}

// take puts a task into its place, unless it is not the one of the agent that asks.
func (f *queueFold) take(q QueuedTask) {
	if !f.r.suits(q) {
		return
	}
	at, _ := slices.BinarySearchFunc(f.head, q, func(a, b QueuedTask) int { return sooner(a.Priority, a.CreatedAt, a.ID, &b) })
	if len(f.head) == f.r.Limit {
		f.head = f.head[:len(f.head)-1]
	}
	f.head = slices.Insert(f.head, at, q)
}

func (f *queueFold) count(status string, created time.Time) {
	f.all.Total++
	switch status {
	case QueuePending:
		f.all.Pending++
		f.wait += max(f.now.Sub(created), 0)
	case QueueAssigned:
		f.all.Assigned++
	case QueueInProgress:
		f.all.InProgress++
	default:
		f.all.Blocked++
	}
	if f.all.Oldest == nil || created.Before(*f.all.Oldest) {
		f.all.Oldest = new(created)
	}
}

func (f *queueFold) reply() QueueReply {
	if f.all.Pending > 0 {
		f.all.Wait = f.wait / time.Duration(f.all.Pending)
	}
	if f.head == nil {
		f.head = []QueuedTask{}
	}
	return QueueReply{Tasks: f.head, Stats: f.all}
}

// sooner orders a task and another one: the most urgent first, then the oldest.
func sooner(priority string, created time.Time, id events.TaskID, b *QueuedTask) int {
	return cmp.Or(cmp.Compare(urgencyOf(priority), urgencyOf(b.Priority)), created.Compare(b.CreatedAt), cmp.Compare(id, b.ID))
}

func urgencyOf(priority string) int {
	switch priority {
	case string(plan.PriorityCritical):
		return 0
	case string(plan.PriorityHigh):
		return 1
	case string(plan.PriorityLow):
		return 3
	default:
		return 2
	}
}

// suits reports whether a task is nobody's, or may be that of somebody, and for the agent that is asked about, if there is
// one, whether it is its own, or one that it may take.
func (r *QueueRequest) suits(q QueuedTask) bool {
	switch {
	case q.AssignedTo != "" && r.Status == "" && !r.IncludeAssigned:
		return false
	case r.Agent == "":
		return true
	case q.AssignedTo != "":
		return q.AssignedTo == r.Agent
	}
	who := &work.Agent{Name: r.Agent, Type: r.AgentType, Capabilities: r.Capabilities}
	return !slices.ContainsFunc(q.wanted, func(a *events.Agents) bool { return !fits(who, a, "") })
}
