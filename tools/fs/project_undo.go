package fs

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type projectUndoIn struct {
	Session string `json:"session,omitempty" jsonschema:"The session whose changes are put back; by default that of the call" maxLength:"64"`
	Task    string `json:"task,omitempty" jsonschema:"Only the changes of this call of it, TASK_..." maxLength:"64"`
	Force   bool   `json:"force,omitempty" jsonschema:"Also put back what has changed since" default:"false"`
	DryRun  bool   `json:"dry_run,omitempty" jsonschema:"Only say what would be put back" default:"false"`
}

type projectUndoOut struct {
	Restored  []string `json:"restored" jsonschema:"Files that were written again as they were"`
	Removed   []string `json:"removed" jsonschema:"Files that were new"`
	Conflicts []string `json:"conflicts" jsonschema:"Files that have changed since and stay as they are"`
}

// projectUndo is PROJECT_UNDO. It restores the files of the project that calls of a session have changed.
var projectUndo = tools.Define(tools.Spec{
	Name:       "PROJECT_UNDO",
	Title:      "Undo the changes of a session",
	Purpose:    "Put back the files of the project that this session, or one call of it, has changed",
	Conditions: []string{"Task state: IN_PROGRESS", "Explicit human approval granted"},
	Effect:     tools.Destructive,
	Gate:       tools.InProgress,
	Approval:   tools.Always,
	Errors:     []string{"NOT_FOUND", "REQUIRED_FIELD", "TOOL_UNAVAILABLE", "EXEC_FAILED", "APPROVAL_REQUIRED"},
}, func(ctx context.Context, env *tools.Env, in projectUndoIn) (projectUndoOut, error) {
	for field, id := range map[string]string{"session": in.Session, "task": in.Task} {
		if _, err := events.ParseTaskID(id); id != "" && err != nil {
			return projectUndoOut{}, fault.From(err).WithField(field)
		}
	}
	if env.Undo == nil {
		return projectUndoOut{}, fault.New(fault.ToolUnavailable, "nothing is kept here")
	}
	done, err := env.Undo(ctx, tools.Undo{
		Session: events.TaskID(in.Session), Task: events.TaskID(in.Task), Force: in.Force, DryRun: in.DryRun,
	})
	return projectUndoOut(done), err
})
