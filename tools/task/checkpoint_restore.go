package task

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type checkpointRestoreIn struct {
	CheckpointID string `json:"checkpoint_id" jsonschema:"Checkpoint to restore" minLength:"1"`
}

type checkpointRestoreOut struct {
	CheckpointID string       `json:"checkpoint_id" jsonschema:"The checkpoint"`
	StateData    tools.Object `json:"state_data" jsonschema:"Restored state data, byte for byte"`
	RestoredAt   time.Time    `json:"restored_at" jsonschema:"Restoration timestamp"`
}

// checkpointRestore is CHECKPOINT_RESTORE (S0-175, A-45). It returns the state data and does not change the state of
// the task.
var checkpointRestore = tools.Define(tools.Spec{
	Name:             "CHECKPOINT_RESTORE",
	Title:            "Restore a checkpoint",
	Purpose:          "Restore from checkpoint",
	Conditions:       []string{"Task state: BLOCKED or IN_PROGRESS", "Checkpoint exists"},
	Effect:           tools.Idempotent,
	Gate:             tools.BlockedOrActive,
	Approval:         tools.NoApproval,
	NeedsCheckpoints: true,
	NoWorkspace:      true,
	LogOnly:          true,
	Errors:           []string{"NOT_FOUND", "FORBIDDEN"},
}, func(_ context.Context, env *tools.Env, in checkpointRestoreIn) (checkpointRestoreOut, error) {
	state, ok := env.Checkpoints[in.CheckpointID]
	if owner, known := events.TaskOfCheckpoint(in.CheckpointID); !ok && known && owner != env.Context() {
		return checkpointRestoreOut{}, fault.New(fault.Forbidden, "the checkpoint belongs to another task").WithField("checkpoint_id").
			WithHint("orch checkpoint list %s shows those of this task", env.Context())
	}
	if !ok {
		return checkpointRestoreOut{}, fault.New(fault.NotFound, "the task has no such checkpoint").WithField("checkpoint_id").
			WithHint("orch checkpoint list %s shows its checkpoints", env.Context())
	}
	at := events.Time(env.Now())
	env.Record(events.CheckpointRestored, &events.Restored{ID: in.CheckpointID, At: at})
	return checkpointRestoreOut{CheckpointID: in.CheckpointID, StateData: tools.Object(state), RestoredAt: at}, nil
})
