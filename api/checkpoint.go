package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// CheckpointRequest creates a checkpoint (Name set), reads one (ID set), or lists them.
type CheckpointRequest struct {
	Task  events.TaskID   `json:"task"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	State json.RawMessage `json:"state,omitempty"`
	Actor string          `json:"actor,omitempty"`
}

// CheckpointReply answers CheckpointRequest.
type CheckpointReply struct {
	Checkpoints []CheckpointView `json:"checkpoints,omitempty"`
	// Snapshot is the stored checkpoint: the task at that time, and the state data.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Snapshot is the content of a checkpoint: the task at a revision, and the state data of the user.
type Snapshot struct {
	ID    string             `json:"id"`
	Name  string             `json:"name"`
	At    time.Time          `json:"at"`
	Rev   uint64             `json:"rev"`
	Task  *statemachine.Task `json:"task"`
	State json.RawMessage    `json:"state_data"`
}
