package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/tools"
)

// location is where the node stores the checkpoints of all tasks, each under the key <task>.<id>.
const location = "KV/ORCH_CHECKPOINTS/"

type checkpointCreateIn struct {
	CheckpointName string       `json:"checkpoint_name" jsonschema:"Checkpoint identifier" minLength:"1" maxLength:"200"`
	StateData      tools.Object `json:"state_data" jsonschema:"Current state to save"`
}

type checkpointCreateOut struct {
	CheckpointID string    `json:"checkpoint_id" jsonschema:"Checkpoint ID, for CHECKPOINT_RESTORE"`
	Timestamp    time.Time `json:"timestamp" jsonschema:"Checkpoint timestamp"`
	Location     string    `json:"location" jsonschema:"Where the checkpoint is stored"`
}

// checkpointCreate is CHECKPOINT_CREATE (S0-170).
var checkpointCreate = tools.Define(tools.Spec{
	Name:        "CHECKPOINT_CREATE",
	Title:       "Create a checkpoint",
	Purpose:     "Create recovery checkpoint",
	Conditions:  []string{"Task state: IN_PROGRESS", "Before risky operations"},
	Effect:      tools.Idempotent,
	Gate:        tools.InProgress,
	Approval:    tools.NoApproval,
	NoWorkspace: true,
	LogOnly:     true,
}, func(_ context.Context, env *tools.Env, in checkpointCreateIn) (checkpointCreateOut, error) {
	at := events.Time(env.Now())
	id := events.NewCheckpointID(env.Context())
	env.Record(events.CheckpointCreated, &events.Checkpointed{
		ID: id, Name: in.CheckpointName, State: events.Inline(json.RawMessage(in.StateData)), At: at,
	})
	return checkpointCreateOut{CheckpointID: id, Timestamp: at, Location: location + string(env.Context()) + "." + id}, nil
})
