package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// CancelRequest cancels a task.
type CancelRequest struct {
	ID     events.TaskID `json:"id"`
	Reason string        `json:"reason,omitempty"`
	Actor  string        `json:"actor,omitempty"`
	// SeenRev is the revision of the task that the decision is based on. If somebody else has decided about the task since, the request
	// is refused with CONFLICT (reason STALE_REVISION). 0 means any.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}

// PauseRequest pauses or resumes exactly one of a task, a queue, a tool, or the node.
type PauseRequest struct {
	ID    events.TaskID `json:"id,omitempty"`
	Queue string        `json:"queue,omitempty"`
	Tool  string        `json:"tool,omitempty"`
	Node  bool          `json:"node,omitempty"`
	// Checkpoint is the checkpoint of the task that Resume restores first; empty for none. Pause does not accept it.
	Checkpoint string `json:"checkpoint,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Actor      string `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest, for a task.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}

// ControlReply lists the pauses of the node, and the task if the request named one.
type ControlReply struct {
	Paused []PauseView `json:"paused"`
	Task   *TaskView   `json:"task,omitempty"`
	// Restored is set for a resume at a checkpoint.
	Restored *RestoredView `json:"restored,omitempty"`
}

// PauseView is one pause of the node.
type PauseView struct {
	// Kind is node, queue or tool.
	Kind   string    `json:"kind"`
	Name   string    `json:"name,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// RestoredView is the checkpoint that a resume restored.
type RestoredView struct {
	CheckpointID string          `json:"checkpoint_id"`
	State        json.RawMessage `json:"state_data"`
	At           time.Time       `json:"restored_at"`
}

// SignalRequest delivers data to a waiting step.
type SignalRequest struct {
	ID    events.TaskID   `json:"id"`
	Name  string          `json:"name"`
	Data  json.RawMessage `json:"data,omitempty"`
	Actor string          `json:"actor,omitempty"`
	// Key identifies the delivery of a hook. A repetition changes nothing, and returns CONFLICT with ReasonRepeatedSignal. Only the
	// node sets it.
	Key string `json:"-"`
}

// ReasonRepeatedSignal is the reason of the error for a signal with a key that the task has received before.
const ReasonRepeatedSignal = "SIGNAL_REPEATED"

// ResolveRequest sets the outcome of a step in doubt.
type ResolveRequest struct {
	ID   events.TaskID `json:"id"`
	Step string        `json:"step"`
	// As is succeeded, failed or retry.
	As     string          `json:"as"`
	Output json.RawMessage `json:"output,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Actor  string          `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}

// CallRequest asks for one call of a tool inside a task.
type CallRequest struct {
	ID    events.TaskID   `json:"id"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Wait  time.Duration   `json:"wait,omitempty"`
	Actor string          `json:"actor,omitempty"`
}

// CallReply is the outcome of a call, or its state if the wait ended first.
type CallReply struct {
	Step   string                 `json:"step"`
	State  statemachine.StepState `json:"state"`
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *fault.Error           `json:"error,omitempty"`
	// Questions are the open questions of the call. It continues by itself when they are answered.
	Questions []QuestionView `json:"questions,omitempty"`
}
