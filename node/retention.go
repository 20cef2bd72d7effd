package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/retention"
)

// Retention is how long archived tasks and their workspaces are retained; 0 is forever.
type Retention struct {
	// Completed and Failed apply to the archived workspaces of tasks that were completed or have failed. The time starts when a
	// workspace is archived.
	Completed, Failed time.Duration
	// Tasks applies to the tasks themselves.
	Tasks orchestrator.Retention
	// ArchiveTo is where tasks are archived before they are removed: a directory or s3://BUCKET/PREFIX; empty for nowhere.
	ArchiveTo string
	// Audit applies to the entries of the audit stream.
	Audit time.Duration
}

// taskRetention returns the retention of tasks. A temporary or read-only node removes no tasks, and reports what another one would.
func (ch *chores) taskRetention() orchestrator.Retention {
	r := ch.cfg.Limits.Retention.Tasks
	r.Workspaces, r.FailedWorkspaces = ch.cfg.Limits.Retention.Completed, ch.cfg.Limits.Retention.Failed
	r.ReportOnly = ch.cfg.Guest != "" || ch.cfg.Confinement.ReadOnly
	return r
}

// rule is the shortest retention time of one shelf, by any rule. A shelf is a folder of archived workspaces, see package workspace.
type rule struct {
	shelf string
	keep  time.Duration
	// of returns the retention time of the shelf from those of a task.
	of func(retention.Keep) time.Duration
}

func (r Retention) rules() []rule {
	times := retention.Rules{Rules: r.Tasks.Rules, Default: retention.Keep{Workspaces: r.Completed, FailedWorkspaces: r.Failed}}
	done := func(k retention.Keep) time.Duration { return k.Workspaces }
	failed := func(k retention.Keep) time.Duration { return k.FailedWorkspaces }
	return []rule{{workspace.CompletedShelf, done(times.Shortest()), done}, {workspace.FailedShelf, failed(times.Shortest()), failed}}
}

const (
	// retainEvery is the interval between two searches for expired workspaces.
	retainEvery = time.Hour
	// retainBatch is how many workspaces are recorded in the log together and then removed.
	retainBatch = 50
	// retainActor is the actor of the removals in the log.
	retainActor = "system:retention"
)

// startRetention removes expired workspaces in the background, in a permanent node.
func (ch *chores) startRetention(ctx context.Context) error {
	never := !slices.ContainsFunc(ch.cfg.Limits.Retention.rules(), func(r rule) bool { return r.keep > 0 })
	if ch.cfg.Guest != "" || ch.cfg.Confinement.ReadOnly || never {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	r := &remover{chores: ch, recorded: map[events.TaskID]bool{}, failed: map[events.TaskID]bool{}}
	go func() {
		defer close(ended)
		for first := true; first || pause.For(run, retainEvery) == nil; first = false {
			r.run(run)
		}
	}()
	ch.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

// remover removes expired workspaces. A failed removal is retried in a later run, and the run continues.
type remover struct {
	chores *chores
	// recorded contains the tasks whose workspace's removal is recorded in the log. failed contains the tasks for which a failed
	// removal was logged.
	recorded, failed map[events.TaskID]bool
}

// run finishes the removals of earlier runs, and then removes the workspaces that have expired since.
func (r *remover) run(ctx context.Context) {
	unfinished, err := r.chores.executor.tree.Retired()
	if err == nil {
		err = r.remove(ctx, unfinished)
	}
	for _, rule := range r.chores.cfg.Limits.Retention.rules() {
		if rule.keep > 0 && ctx.Err() == nil {
			err = errors.Join(err, r.removeExpired(ctx, rule))
		}
	}
	if err != nil && ctx.Err() == nil {
		r.chores.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "old workspaces are not removed", slog.Any("error", err))
	}
}

// removeExpired removes the expired workspaces of one shelf.
func (r *remover) removeExpired(ctx context.Context, rule rule) error {
	old, err := r.chores.executor.tree.Shelved(rule.shelf, r.chores.clock().Add(-rule.keep))
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(old, retainBatch) {
		began := time.Now()
		if err := r.removeBatch(ctx, rule, batch); err != nil {
			return err
		}
		if err := pause.For(ctx, time.Since(began)); err != nil { // use at most half of the time
			return err
		}
	}
	return nil
}

// removeBatch removes those of some workspaces that are due and not held. No hold is placed while they are moved from their shelf.
func (r *remover) removeBatch(ctx context.Context, rule rule, batch []workspace.Shelved) error {
	release := r.chores.holds.Guard()
	due, err := r.chores.dueWorkspaces(ctx, rule, batch)
	var retired []events.TaskID
	if err == nil {
		retired = r.retire(rule, due)
	}
	release()
	return errors.Join(err, r.remove(ctx, retired))
}

// dueWorkspaces returns those workspaces of a shelf that are due by the rules of their tasks, and whose tasks are not held.
func (h *host) dueWorkspaces(ctx context.Context, rule rule, all []workspace.Shelved) (due []workspace.Shelved, err error) {
	now := h.clock()
	for _, one := range all {
		keep, _, held, err := h.orch.Retained(ctx, one.Task)
		if err != nil {
			return nil, err
		}
		if d := rule.of(keep); d > 0 && now.Sub(one.Ended) > d && !held {
			due = append(due, one)
		}
	}
	return due, nil
}

// addWorkspaces adds to a report of retention what it would remove of workspaces.
func (h *host) addWorkspaces(ctx context.Context, reply *api.RetentionReply) error {
	for _, rule := range h.cfg.Limits.Retention.rules() {
		if rule.keep == 0 {
			continue
		}
		old, err := h.executor.tree.Shelved(rule.shelf, h.clock().Add(-rule.keep))
		if err != nil {
			return err
		}
		for _, one := range old {
			keep, n, held, err := h.orch.Retained(ctx, one.Task)
			if err != nil {
				return err
			}
			if d := rule.of(keep); d == 0 || held || h.clock().Sub(one.Ended) <= d {
				continue
			}
			bytes, _, err := h.executor.tree.SizeOf(ctx, rule.shelf, one.Task)
			if err != nil {
				return err
			}
			view := &reply.Rules[(n+len(reply.Rules)-1)%len(reply.Rules)]
			view.DueWorkspaces, view.DueWorkspaceBytes = view.DueWorkspaces+1, view.DueWorkspaceBytes+bytes
		}
	}
	return nil
}

// retire moves workspaces from their shelf to the one for removal, and returns the tasks whose workspaces it has moved.
func (r *remover) retire(rule rule, old []workspace.Shelved) (tasks []events.TaskID) {
	for _, shelved := range old {
		if r.succeeded(shelved.Task, r.chores.executor.tree.Retire(rule.shelf, shelved.Task)) {
			tasks = append(tasks, shelved.Task)
		}
	}
	return tasks
}

// remove records in the log that retired workspaces are removed, and then removes them.
func (r *remover) remove(ctx context.Context, tasks []events.TaskID) error {
	for batch := range slices.Chunk(tasks, retainBatch) {
		if err := r.record(ctx, batch); err != nil {
			return err
		}
		for _, task := range batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := r.discard(ctx, task); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard removes a retired workspace, unless its task was held meanwhile: then a later run removes it, after the hold.
func (r *remover) discard(ctx context.Context, task events.TaskID) error {
	defer r.chores.holds.Guard()()
	_, _, held, err := r.chores.orch.Retained(ctx, task)
	if err == nil && !held {
		r.succeeded(task, r.chores.executor.tree.Discard(task))
	}
	return err
}

// succeeded reports whether err is nil. It logs the first error of each task.
func (r *remover) succeeded(task events.TaskID, err error) bool {
	if err != nil && !r.failed[task] {
		r.failed[task] = true
		r.chores.cfg.logger().Warn("workspace_not_removed", slog.String("task", string(task)), slog.Any("error", err))
	}
	return err == nil
}

// record records in the log which workspaces are removed. It records each workspace once.
func (r *remover) record(ctx context.Context, tasks []events.TaskID) error {
	fresh := slices.DeleteFunc(slices.Clone(tasks), func(task events.TaskID) bool { return r.recorded[task] })
	if len(fresh) == 0 {
		return nil
	}
	plan, err := r.plan(ctx, fresh)
	if err != nil {
		return err
	}
	r.chores.own("retention.remove", changedTasks(fresh))
	if _, err := r.chores.orch.Submit(ctx, api.SubmitRequest{Plan: plan, Actor: retainActor, Internal: true}); err != nil {
		return err
	}
	for _, task := range fresh {
		r.recorded[task] = true
	}
	return nil
}

// plan returns the plan of a task with one step, which writes a line with the removed workspaces to the log of that task.
func (r *remover) plan(ctx context.Context, tasks []events.TaskID) (json.RawMessage, error) {
	type object = map[string]any
	total := int64(0)
	for _, task := range tasks {
		bytes, _, err := r.chores.executor.tree.SizeOf(ctx, workspace.GoingShelf, task)
		if err != nil {
			return nil, err
		}
		total += bytes
	}
	message := "removing the workspaces of " + strconv.Itoa(len(tasks)) + " tasks that ended long enough ago"
	return json.Marshal(object{"orch": "v1", "name": api.OwnPrefix + "retention", "summary": message, "steps": []object{{
		"id": "removed", "tool": "LOG_WRITE", "with": object{
			"level": "INFO", "message": message, "context": object{"tasks": tasks, "bytes": total},
		},
	}}})
}

// Retained describes the archived workspaces of completed or of failed tasks, and those that retention would remove now.
type Retained struct {
	State string `json:"state"`
	// Keep is how long workspaces are retained; 0 is forever.
	Keep  time.Duration `json:"keep"`
	Bytes int64         `json:"bytes"`
	Files int           `json:"files"`
	// Due are the tasks whose workspaces would be removed. DueBytes is the total size of these workspaces.
	Due      []events.TaskID `json:"due"`
	DueBytes int64           `json:"due_bytes"`
}

// InspectRetention returns the state of the workspace archive and what a node without rules and holds would remove from it. It needs no
// running node.
func InspectRetention(ctx context.Context, cfg Config, now time.Time) ([]Retained, error) {
	root, err := pathguard.Open(cfg.Root)
	if err != nil {
		return nil, err
	}
	tree, err := workspace.New(root, workingDir)
	var all []Retained
	plain := Retention{Completed: cfg.Limits.Retention.Completed, Failed: cfg.Limits.Retention.Failed}
	for i, r := range plain.rules() {
		if err != nil {
			break
		}
		view := Retained{State: []string{"completed", "failed"}[i], Keep: r.keep, Due: []events.TaskID{}}
		if view.Bytes, view.Files, err = tree.Size(ctx, r.shelf); err == nil {
			err = view.addDue(ctx, tree, r, now)
		}
		all = append(all, view)
	}
	return all, errors.Join(err, root.Close())
}

// addDue adds the workspaces that are due.
func (r *Retained) addDue(ctx context.Context, tree *workspace.Tree, rule rule, now time.Time) error {
	if rule.keep == 0 {
		return nil
	}
	old, err := tree.Shelved(rule.shelf, now.Add(-rule.keep))
	for _, shelved := range old {
		bytes, _, err := tree.SizeOf(ctx, rule.shelf, shelved.Task)
		if err != nil {
			return err
		}
		r.Due, r.DueBytes = append(r.Due, shelved.Task), r.DueBytes+bytes
	}
	return err
}
