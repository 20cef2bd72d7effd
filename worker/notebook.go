package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// notebook writes the notes of tasks for people: PROGRESS.md and CHECKPOINTS.md in their workspaces.
type notebook struct{ *core }

// recordCall adds the checkpoints of a call to CHECKPOINTS.md. It adds the call itself to PROGRESS.md if the call has a
// workspace and its tool can do more than read: people look for the steps that matter. A write error does not fail the call,
// because the log of the task contains every call.
func (n *notebook) recordCall(ctx context.Context, a *attempt, o work.Outcome) {
	if a.dropped.Load() {
		return
	}
	var err error
	for _, fact := range o.Facts {
		if c, ok := fact.Data.(*events.Checkpointed); ok {
			err = errors.Join(err, n.recordCheckpoint(a, n.linePrefix()+c.ID+" "+c.Name))
		}
	}
	if a.env.Workspace != "" && a.spec.Effect != tools.Read {
		result := "ok"
		switch {
		case o.ApprovalRequest != nil:
			result = string(fault.ApprovalRequired)
		case len(o.Questions) > 0:
			result = "asks"
		case len(o.Note) > 0:
			result = "goes on elsewhere"
		case o.Error != nil:
			result = string(o.Error.Code)
		}
		line := n.linePrefix() + a.Step + " " + a.Tool + " " + o.Duration.Round(time.Millisecond).String() + " " + result
		err = errors.Join(err, n.workspaces.AppendProgress(a.Context(), line))
	}
	if err != nil {
		n.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the notes of a task cannot be written", a.logAttrs(err)...)
	}
}

// recordRisk adds a line to an existing CHECKPOINTS.md of the task, for the checkpoint that the owner creates before a
// destructive call.
func (n *notebook) recordRisk(ctx context.Context, a *attempt, effect tools.Effect) {
	if effect != tools.Destructive || len(a.Note) > 0 || a.env.Workspace == "" {
		return
	}
	err := n.workspaces.AppendCheckpoint(a.Context(), n.linePrefix()+"before "+a.Step+" ("+a.Tool+")")
	if err != nil {
		n.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the notes of a task cannot be written", a.logAttrs(err)...)
	}
}

// linePrefix returns the beginning of a line in the notes.
func (n *notebook) linePrefix() string {
	return "[" + n.cfg.Clock().UTC().Format("2006-01-02T15:04:05.000Z") + "] "
}

// recordCheckpoint adds a line to CHECKPOINTS.md. It creates the workspace if necessary, because the checkpoint tool itself
// needs none.
func (n *notebook) recordCheckpoint(a *attempt, line string) error {
	if _, err := n.workspaces.Ensure(a.Context(), a.noteContext()); err != nil {
		return err
	}
	return n.workspaces.AppendCheckpoint(a.Context(), line)
}
