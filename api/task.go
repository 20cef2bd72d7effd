package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// FindRequest asks for an id.
type FindRequest struct {
	// Text is an id, a unique prefix of an id (with or without TASK_), or @last.
	Text string `json:"text"`
	// Actor determines the meaning of @last: the newest task that this actor submitted with a command. Without Actor, @last is the
	// newest task of all submitters, however it was submitted.
	Actor string `json:"actor,omitempty"`
}

// FindReply answers Find.
type FindReply struct {
	ID events.TaskID `json:"id"`
}

// GetRequest names a task.
type GetRequest struct {
	ID events.TaskID `json:"id"`
}

// TaskView is a task as clients see it.
type TaskView struct {
	ID      events.TaskID      `json:"id"`
	Name    string             `json:"name"`
	Summary string             `json:"summary,omitempty"`
	State   statemachine.State `json:"state"`
	Reason  string             `json:"reason,omitempty"`
	// Block is the kind of the obstacle, if the task is blocked.
	Block    string            `json:"block,omitempty"`
	Paused   bool              `json:"paused,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Priority string            `json:"priority"`
	Queue    string            `json:"queue,omitempty"`
	Parent   events.TaskID     `json:"parent,omitempty"`
	// ParentStep is the step of the parent that started this task. Agent is the agent type of a child task.
	ParentStep string        `json:"parent_step,omitempty"`
	Agent      string        `json:"agent,omitempty"`
	RetryOf    events.TaskID `json:"retry_of,omitempty"`
	// ForkOf is the task whose results up to revision ForkAt this task stands on.
	ForkOf events.TaskID `json:"fork_of,omitempty"`
	ForkAt uint64        `json:"fork_at,omitempty"`
	// Requestor is who submitted the task; for a child task, "task:" and the id of the parent.
	Requestor string `json:"requestor,omitempty"`
	// Schedule is the firing, and Hook the delivery, that has started the task or the one that it continues; nil for none.
	Schedule *events.Firing `json:"schedule,omitempty"`
	Hook     *DeliveryRef   `json:"hook,omitempty"`
	// TraceParent is the position in a trace of the program that submitted the task, as W3C Trace Context writes it.
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is the tracestate of that program.
	TraceState string `json:"tracestate,omitempty"`
	// Session is the session in which the task was submitted; for a task that is itself a session, its own id.
	Session events.TaskID `json:"session,omitempty"`
	// Root is the folder that the calls of the task are confined to; empty if any worker may execute them.
	Root string `json:"root,omitempty"`
	// DependsOn lists the unmet dependencies.
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	Deadline  *time.Time      `json:"deadline,omitempty"`
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Steps     []StepView      `json:"steps"`
	// Questions are the open questions of running calls.
	Questions   []QuestionView   `json:"questions,omitempty"`
	Checkpoints []CheckpointView `json:"checkpoints,omitempty"`
	Output      json.RawMessage  `json:"output,omitempty"`
	Error       *fault.Error     `json:"error,omitempty"`
	Rev         uint64           `json:"rev"`
	Archived    bool             `json:"archived,omitempty"`
	// Imported is set for a task of another node that was imported for reading. The task is then shown as of revision Rev.
	Imported *ImportView `json:"imported,omitempty"`
	// Holds are the holds on the task and on other tasks of its family. Only Get sets them.
	Holds []Hold `json:"holds,omitempty"`
}

// DeliveryRef names a delivery: the hook, and the id that the sender has given it.
type DeliveryRef struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// Hops is how many deliveries of destinations have led to it.
	Hops int `json:"hops,omitempty"`
}

// StepView is a step as clients see it.
type StepView struct {
	Key   string                 `json:"key"`
	Kind  string                 `json:"kind"`
	State statemachine.StepState `json:"state"`
	Tool  string                 `json:"tool,omitempty"`
	// Title describes the work for an agent in one line.
	Title string `json:"title,omitempty"`
	// Attempt is the number of the newest attempt. Tries counts the attempts that the retry rule counts: all but those that were
	// parked for an approval or a question.
	Attempt int `json:"attempt,omitempty"`
	Tries   int `json:"tries,omitempty"`
	// Rounds counts the results so far that did not fulfil the condition of the step, which therefore runs again.
	Rounds int `json:"rounds,omitempty"`
	// Lost counts the attempts that ended with the loss of their worker.
	Lost   int    `json:"lost,omitempty"`
	Worker string `json:"worker,omitempty"`
	// For selects the agents that may take the call; nil for a call that workers execute.
	For   *events.Agents `json:"for,omitempty"`
	Since *time.Time     `json:"since,omitempty"`
	// Due is when a retry, a timer or a timeout fires.
	Due      *time.Time      `json:"due,omitempty"`
	Signal   string          `json:"signal,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Child    events.TaskID   `json:"child,omitempty"`
	Duration time.Duration   `json:"duration,omitempty"`
	Progress *work.Progress  `json:"progress,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *fault.Error    `json:"error,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// CheckpointView is a checkpoint in the list of its task.
type CheckpointView struct {
	ID   string    `json:"id"`
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// ResultRequest asks for the final state of a task.
type ResultRequest struct {
	ID   events.TaskID `json:"id"`
	Wait time.Duration `json:"wait,omitempty"`
	// Attend makes the wait end also when the task itself waits for people: for an approval or an answer (M-1).
	Attend bool `json:"attend,omitempty"`
	// SizeOnly replaces an output of events.MaxInline bytes or more by its size (ResultReply.Size).
	SizeOnly bool `json:"size_only,omitempty"`
}

// ResultReply is the state of a task.
type ResultReply struct {
	ID    events.TaskID      `json:"id"`
	State statemachine.State `json:"state"`
	Ended bool               `json:"over"`
	// Waits is set if the task waits for people, or for an answer of the model of its client.
	Waits  bool            `json:"waits,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Size is the size of an output that was left out, in bytes.
	Size  int64        `json:"size,omitempty"`
	Error *fault.Error `json:"error,omitempty"`
}
