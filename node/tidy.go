package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// startTidying starts to tidy workspaces in the background: those of tasks that have ended, if an earlier node stopped before it
// could remove their temporary files or archive them.
func (ch *chores) startTidying(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ch.tidy(run)
	}()
	ch.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

func (ch *chores) tidy(ctx context.Context) {
	tasks, err := ch.executor.tree.Tasks()
	for _, id := range tasks {
		if ctx.Err() != nil {
			return
		}
		err = errors.Join(err, ch.tidyTask(ctx, id))
	}
	if err != nil && !fault.Has(err, fault.NotFound) && ctx.Err() == nil {
		ch.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "folders of tasks cannot be put away", slog.Any("error", err))
	}
}

// tidyTask removes the temporary files of an ended task, and archives the workspace of an archived task. It ignores the workspace
// of an unknown task.
func (ch *chores) tidyTask(ctx context.Context, id events.TaskID) error {
	view, err := ch.orch.Get(ctx, api.GetRequest{ID: id})
	switch {
	case fault.Has(err, fault.NotFound):
		return nil
	case err != nil || !view.State.Terminal():
		return err
	}
	if err := ch.executor.tree.RemoveTemp(id); err != nil || !view.Archived {
		return err
	}
	return ch.executor.tree.Archive(id, view.State == statemachine.Done)
}
