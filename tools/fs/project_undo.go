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
	// Later is as in tools.Undone.
	Later   []tools.ChangedLater `json:"later,omitempty" jsonschema:"Files that were changed since: by whom, what, and whether the undo overwrites that"`
	Preview bool                 `json:"preview,omitempty" jsonschema:"Nothing was changed: the lists say what an undo would do"`
}

// projectUndo is PROJECT_UNDO. It restores the files of the project that calls of a session have changed. A dry run only reads, and so
// needs no approval. What it is judged by holds: Env.Undo restores nothing for a call that was judged as a read.
var projectUndo = tools.WithEffect[projectUndoIn, projectUndoOut](tools.DefineIntent(tools.Spec{
	Name:       "PROJECT_UNDO",
	Title:      "Undo the changes of a session",
	Purpose:    "Restore the files of the project that this session, or one of its calls, has changed",
	Conditions: []string{"Task state: IN_PROGRESS", "Explicit human approval granted, unless dry_run is true"},
	Effect:     tools.Destructive,
	Gate:       tools.InProgress,
	Approval:   tools.ByEffect,
	NeedsSight: true,
	Errors:     []string{"NOT_FOUND", "REQUIRED_FIELD", "TOOL_UNAVAILABLE", "EXEC_FAILED", "APPROVAL_REQUIRED"},
}, intendUndo, func(ctx context.Context, env *tools.Env, in projectUndoIn) (projectUndoOut, error) {
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
	return projectUndoOut{Restored: done.Restored, Removed: done.Removed, Conflicts: done.Conflicts, Later: done.Later, Preview: in.DryRun}, err
}), func(in projectUndoIn) tools.Effect {
	if in.DryRun {
		return tools.Read
	}
	return tools.Destructive
})

// intendUndo describes an undo, which overwrites and removes files, or a dry run, which only reads them.
func intendUndo(_ context.Context, _ *tools.Env, in projectUndoIn) (tools.Intent, error) {
	switch {
	case in.DryRun:
		return tools.Intent{Effect: tools.Read}, nil
	case in.Force:
		return tools.Intent{Effect: tools.Destructive, Reason: "it overwrites files with their previous content, also those that were changed since"}, nil
	default:
		return tools.Intent{Effect: tools.Destructive, Reason: "it overwrites files with their previous content"}, nil
	}
}
