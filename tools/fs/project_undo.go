package fs

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type projectUndoIn struct {
	Session string `json:"session,omitempty" jsonschema:"The session with the changes to undo; default: that of the call" maxLength:"64"`
	Task    string `json:"task,omitempty" jsonschema:"Undo only the changes of this call of the session, TASK_..." maxLength:"64"`
	Force   bool   `json:"force,omitempty" jsonschema:"Also restore files that were changed since" default:"false"`
	DryRun  bool   `json:"dry_run,omitempty" jsonschema:"Only report what would be restored" default:"false"`
}

type projectUndoOut struct {
	Restored  []string `json:"restored" jsonschema:"Files that have their previous content again"`
	Removed   []string `json:"removed" jsonschema:"New files that were removed"`
	Conflicts []string `json:"conflicts" jsonschema:"Files that were changed since and were left as they are"`
	Preview   bool     `json:"preview,omitempty" jsonschema:"Nothing was changed: the lists say what an undo would do"`
}

// projectUndo is PROJECT_UNDO. It restores the files of the project that calls of a session have changed.
var projectUndo = tools.Define(tools.Spec{
	Name:       "PROJECT_UNDO",
	Title:      "Undo the changes of a session",
	Purpose:    "Restore the files of the project that this session, or one of its calls, has changed",
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
		return projectUndoOut{}, fault.New(fault.ToolUnavailable, "no backups are stored here")
	}
	done, err := env.Undo(ctx, tools.Undo{
		Session: events.TaskID(in.Session), Task: events.TaskID(in.Task), Force: in.Force, DryRun: in.DryRun,
	})
	return projectUndoOut{Restored: done.Restored, Removed: done.Removed, Conflicts: done.Conflicts, Preview: in.DryRun}, err
})
