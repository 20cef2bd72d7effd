package orchestrator

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// What can be held.
const (
	holdNode  = "node"
	holdQueue = "queue"
	holdTool  = "tool"
)

// The entry of the checkpoint store that keeps what is paused, over restarts. No task has this id.
const (
	controlTask events.TaskID = "TASK_00000000000000000000000000"
	controlID   string        = "holds"
)

// held reports whether the node, a queue or a tool is paused. The lock is held.
func (o *Orchestrator) held(kind, name string) bool {
	for _, h := range o.holds {
		if h.Kind == kind && h.Name == name {
			return true
		}
	}
	return false
}

// Pause implements API.
func (o *Orchestrator) Pause(ctx context.Context, r PauseRequest) (ControlReply, error) {
	if err := r.check(o); err != nil {
		return ControlReply{}, err
	}
	if r.ID != "" {
		return o.pauseTask(ctx, r, events.TaskPaused)
	}
	hold := r.hold()
	hold.At, hold.Reason, hold.By = o.now(), o.cleanText(r.Reason), first(r.Actor, actorNode)
	return o.setHolds(ctx, func(holds []Hold) ([]Hold, error) {
		if holds = append(removeHold(holds, hold), hold); len(holds) > maxHolds {
			return nil, fault.New(fault.QuotaExceeded, "%d things are paused, the limit", maxHolds).WithHint("orch resume some of them, or pause the node")
		}
		return holds, nil
	})
}

// Resume implements API.
func (o *Orchestrator) Resume(ctx context.Context, r PauseRequest) (ControlReply, error) {
	if err := r.check(o); err != nil {
		return ControlReply{}, err
	}
	if r.ID != "" {
		return o.pauseTask(ctx, r, events.TaskResumed)
	}
	return o.setHolds(ctx, func(holds []Hold) ([]Hold, error) { return removeHold(holds, r.hold()), nil })
}

// maxHolds bounds what can be paused at the same time.
const maxHolds = 1000

// check also gives the tool the name that counts.
func (r *PauseRequest) check(o *Orchestrator) error {
	n := 0
	for _, set := range []bool{r.ID != "", r.Queue != "", r.Tool != "", r.Node} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fault.New(fault.ValidationError, "name exactly one of a task, a queue, a tool, or the node")
	}
	if len(r.Queue) > maxText || len(r.Actor) > maxText {
		return tooMany("queue", len(r.Queue), maxText)
	}
	if r.Tool != "" {
		tool, ok := o.cfg.Catalogue.Get(r.Tool)
		if !ok {
			return fault.New(fault.NotFound, "there is no tool %q", clip(r.Tool)).WithField("tool").WithHint("orch tools list")
		}
		r.Tool = tool.Spec().Name
	}
	return o.serving()
}

func (r PauseRequest) hold() Hold {
	switch {
	case r.Queue != "":
		return Hold{Kind: holdQueue, Name: r.Queue}
	case r.Tool != "":
		return Hold{Kind: holdTool, Name: r.Tool}
	default:
		return Hold{Kind: holdNode}
	}
}

func removeHold(holds []Hold, gone Hold) []Hold {
	return slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return h.Kind == gone.Kind && h.Name == gone.Name })
}

// setHolds makes a change of what is paused durable, then effective.
func (o *Orchestrator) setHolds(ctx context.Context, change func([]Hold) ([]Hold, error)) (ControlReply, error) {
	o.holding.Lock()
	defer o.holding.Unlock()
	o.lock()
	holds, err := change(o.holds)
	o.unlock()
	if err != nil {
		return ControlReply{}, err
	}
	lasting := slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return h.passing })
	if _, err := o.cfg.Checkpoints.Save(ctx, controlTask, controlID, mustJSON(lasting)); err != nil {
		return ControlReply{}, err
	}
	o.lock()
	defer o.unlock()
	o.holds = holds
	o.match.refresh(func(lane) bool { return true })
	o.dispatch()
	return ControlReply{Paused: slices.Clone(holds)}, nil
}

// restoreHolds reads what was paused when the node stopped.
func (o *Orchestrator) restoreHolds(ctx context.Context) error {
	data, err := o.cfg.Checkpoints.Load(ctx, controlTask, controlID)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var holds []Hold
	if err := json.Unmarshal(data, &holds); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the list of what is paused is damaged")
	}
	o.lock()
	defer o.unlock()
	for _, h := range o.holds {
		holds = append(removeHold(holds, h), h)
	}
	o.holds = holds
	return nil
}

func (o *Orchestrator) pauseTask(ctx context.Context, r PauseRequest, kind events.Kind) (ControlReply, error) {
	err := o.change(ctx, r.ID, r.Actor, func(t *turn) error {
		if err := t.over("pause"); err != nil {
			return err
		}
		if pause := kind == events.TaskPaused; t.task.Paused != pause {
			t.emit(kind, &events.Paused{Reason: o.cleanText(r.Reason)})
		}
		if kind == events.TaskResumed {
			t.askAgain(first(r.Actor, actorNode))
		}
		return nil
	})
	if err != nil {
		return ControlReply{}, err
	}
	view, err := o.Get(ctx, GetRequest{ID: r.ID})
	if err != nil {
		return ControlReply{}, err
	}
	o.lock()
	defer o.unlock()
	return ControlReply{Paused: slices.Clone(o.holds), Task: &view}, nil
}

// Status implements API.
func (o *Orchestrator) Status(context.Context, StatusRequest) (StatusReply, error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	o.lock()
	reply := StatusReply{
		Ready: o.serving() == nil, Open: len(o.listed.waiting), Finished: len(o.listed.lines) - len(o.listed.waiting),
		Queued: map[string]int{}, Running: o.match.running, Workers: []WorkerView{}, Paused: slices.Clone(o.holds),
		Store: "ok", StartedAt: o.started, MemoryMiB: int(mem.Sys >> 20),
	}
	if o.loss != nil {
		reply.Refuse(o.loss, time.Time{})
	}
	for lane, q := range o.match.lanes {
		reply.Queued[lane.queue] += q.Len()
	}
	for name, w := range o.match.workers {
		queues := slices.DeleteFunc(slices.Clone(w.queues), func(q string) bool { return q == work.NodeQueue })
		if len(queues) == 0 {
			continue // it is there for the node itself
		}
		reply.Workers = append(reply.Workers, WorkerView{Name: name, Queues: queues, Running: w.leases, SeenAt: w.seen, Silent: o.mute(w)})
	}
	o.unlock()
	slices.SortFunc(reply.Workers, func(a, b WorkerView) int { return compareText(a.Name, b.Name) })
	o.cfg.Describe(&reply)
	return reply, nil
}

// Refuse says in the answer that the log takes nothing, and since when.
func (r *StatusReply) Refuse(why *fault.Error, since time.Time) {
	r.Store = why.Error()
	r.Refusing = &Refusal{Code: why.Code, Message: why.Message, Hint: why.Hint, Since: since}
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// Archive implements API.
func (o *Orchestrator) Archive(ctx context.Context, r ArchiveRequest) (ArchiveReply, error) {
	if err := o.serving(); err != nil {
		return ArchiveReply{}, err
	}
	var reply ArchiveReply
	ids, err := o.archivable(ctx, o.now().Add(-r.Age), 1<<30)
	if err != nil {
		return reply, err
	}
	for _, id := range ids {
		if err := o.archive(ctx, id); err != nil {
			return reply, err
		}
		reply.Archived++
	}
	return reply, nil
}

// archivable lists finished tasks that have not changed since a time: those that have a line, then those
// that memory has forgotten. With an error the list may be too short.
func (o *Orchestrator) archivable(ctx context.Context, before time.Time, limit int) ([]events.TaskID, error) {
	o.lock()
	ids, forgotten := o.archivableLines(before, limit), o.listed.forgotten
	o.unlock()
	if len(ids) == limit || forgotten.IsZero() {
		return ids, nil
	}
	seen := map[events.TaskID]bool{}
	for h, err := range o.oldHeads(ctx, before) {
		if err != nil || len(ids) == limit {
			return ids, err
		}
		if statemachine.State(h.State).Terminal() && !seen[h.Task] && !o.remembers(h.Task) {
			seen[h.Task] = true
			ids = append(ids, h.Task)
		}
	}
	return ids, nil
}

// archivableLines lists those of which there is a line. The lock is held.
func (o *Orchestrator) archivableLines(before time.Time, limit int) []events.TaskID {
	var ids []events.TaskID
	for _, id := range o.listed.ended {
		line := o.listed.lines[id]
		if line == nil || line.Archived {
			continue
		}
		if e := o.tasks[id]; e != nil && (e.task == nil || !e.idle()) {
			continue
		}
		if line.UpdatedAt.Before(before) && len(ids) < limit {
			ids = append(ids, id)
		}
	}
	return ids
}

// remembers reports whether there is a line of a task.
func (o *Orchestrator) remembers(id events.TaskID) bool {
	o.lock()
	defer o.unlock()
	return o.listed.lines[id] != nil
}

// oldHeads yields the heads of the live log that are older than a time. In the order of the log they
// are the first ones.
func (o *Orchestrator) oldHeads(ctx context.Context, before time.Time) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		ordered := o.cfg.Indexes != nil
		heads := o.cfg.Log.Heads
		if ordered {
			heads = func(ctx context.Context) iter.Seq2[events.Head, error] { return o.cfg.Indexes.HeadsAfter(ctx, 0) }
		}
		for h, err := range heads(ctx) {
			old := err == nil && h.At.Before(before)
			if err == nil && !old && ordered {
				return
			}
			if (old || err != nil) && !yield(h, err) {
				return
			}
		}
	}
}

// archive moves one finished task to the archive. Its entry is busy meanwhile, so that nothing is
// appended between the copy and the removal; a later append is refused by its condition.
func (o *Orchestrator) archive(ctx context.Context, id events.TaskID) error {
	var held *entry
	done := false
	err := o.look(ctx, id, func(e *entry) error {
		if !e.task.State.Terminal() || !e.idle() {
			return fault.New(fault.Conflict, "task %s is in use", id)
		}
		held, done = e, e.task.State == statemachine.Done
		e.busy = true
		return nil
	})
	if err != nil {
		return err
	}
	err = o.cfg.Log.Archive(ctx, id)
	o.lock()
	if err == nil {
		o.listed.markArchived(id)
		held.archived = true
	}
	o.release(held)
	if err == nil && held.idle() && o.tasks[id] == held {
		delete(o.tasks, id)
	}
	o.unlock()
	if err == nil {
		o.cfg.Archived(id, done)
	}
	return err
}

// archiveLoop archives finished tasks when they are old enough, a few at a time.
func (o *Orchestrator) archiveLoop(ctx context.Context) {
	tick := time.NewTicker(min(max(o.cfg.ArchiveAfter/10, time.Second), time.Minute))
	defer tick.Stop()
	failed := map[events.TaskID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for o.archiveSome(ctx, failed) { // there is more
			}
		}
	}
}

// archiveSome archives what is old enough, and reports whether there may be more. failed holds the tasks
// that could not be archived, and when: they are left alone for a while.
func (o *Orchestrator) archiveSome(ctx context.Context, failed map[events.TaskID]time.Time) (more bool) {
	const batch, again = 2000, 10 * time.Minute
	now := o.now()
	maps.DeleteFunc(failed, func(_ events.TaskID, at time.Time) bool { return now.Sub(at) >= again })
	ids, err := o.archivable(ctx, now.Add(-o.cfg.ArchiveAfter), batch+len(failed))
	if err != nil && ctx.Err() == nil {
		o.cfg.Logger.WarnContext(ctx, "archive_incomplete", slog.Any("error", err))
	}
	archived := 0
	for _, id := range ids {
		if _, wait := failed[id]; wait {
			continue
		}
		err := o.archive(ctx, id)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			archived++
			continue
		}
		o.cfg.Logger.WarnContext(ctx, "archive_failed", slog.Any("task", id), slog.Any("error", err))
		if fault.Has(err, fault.Unavailable) || fault.Has(err, fault.DiskFull) {
			return false // so it would be for every other task
		}
		failed[id] = now
	}
	return archived >= batch
}
