package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/work"
)

// These constants name the entry of the checkpoint store that stores the pauses of the node. No task has this id.
const (
	controlTask events.TaskID = "TASK_00000000000000000000000000"
	controlID   string        = "holds"
)

// loadRecord decodes a record of the node in the checkpoint store. Without one it changes nothing.
func loadRecord(ctx context.Context, store events.Checkpoints, id string, record any) error {
	data, err := store.Load(ctx, controlTask, id)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, record)
}

// saveRecord writes a record of the node to the checkpoint store.
func saveRecord(ctx context.Context, store events.Checkpoints, id string, record any) error {
	_, err := store.Save(ctx, controlTask, id, decide.MustJSON(record))
	return err
}

// Pause implements api.Tasks.
func (op *operations) Pause(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	if err := op.checkPause(&r); err != nil {
		return api.ControlReply{}, err
	}
	if r.ID != "" {
		if r.Checkpoint != "" {
			return api.ControlReply{}, fault.New(fault.ValidationError, "only resume takes a checkpoint").WithField("checkpoint")
		}
		return op.pauseTask(ctx, r, events.TaskPaused)
	}
	pause := pauseOf(r)
	pause.At, pause.Reason, pause.By = op.now(), op.rules.CleanText(r.Reason), cmp.Or(r.Actor, decide.ActorNode)
	return op.changePauses(ctx, func(pauses []api.PauseView) ([]api.PauseView, error) {
		if pauses = append(removePause(pauses, pause), pause); len(pauses) > maxPauses {
			return nil, fault.New(fault.QuotaExceeded, "%d things are paused, the limit", maxPauses).WithHint("orch resume some of them, or pause the node")
		}
		return pauses, nil
	})
}

// Resume implements api.Tasks.
func (op *operations) Resume(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	if err := op.checkPause(&r); err != nil {
		return api.ControlReply{}, err
	}
	if r.ID != "" {
		if r.Checkpoint != "" {
			return op.resumeAt(ctx, r)
		}
		return op.pauseTask(ctx, r, events.TaskResumed)
	}
	return op.changePauses(ctx, func(pauses []api.PauseView) ([]api.PauseView, error) { return removePause(pauses, pauseOf(r)), nil })
}

// maxPauses limits the number of pauses.
const maxPauses = 1000

// checkPause validates a request and replaces the tool name by the canonical one.
func (op *operations) checkPause(r *api.PauseRequest) error {
	n := 0
	for _, set := range []bool{r.ID != "", r.Queue != "", r.Tool != "", r.Node} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fault.New(fault.ValidationError, "name exactly one of a task, a queue, a tool, or the node")
	}
	if r.Checkpoint != "" && r.ID == "" {
		return fault.New(fault.ValidationError, "only a task has checkpoints").WithField("checkpoint").WithHint("name the task")
	}
	if len(r.Queue) > maxText || len(r.Actor) > maxText {
		return tooMany("queue", len(r.Queue), maxText)
	}
	if r.Tool != "" {
		tool, ok := op.cfg.Catalogue.Get(r.Tool)
		if !ok {
			return fault.New(fault.NotFound, "there is no tool %q", decide.Clip(r.Tool)).WithField("tool").WithHint("orch tools list")
		}
		r.Tool = tool.Spec().Name
	}
	if r.SeenRev != 0 && r.ID == "" {
		return fault.New(fault.ValidationError, "only a task has revisions").WithField("seen_rev").WithHint("leave it out")
	}
	return op.serving()
}

func (op *operations) pauseTask(ctx context.Context, r api.PauseRequest, kind events.Kind) (api.ControlReply, error) {
	err := seen{r.ID, r.SeenRev, r.Actor}.change(ctx, op.reader, func(t *decide.Turn) error {
		if err := t.CheckOpen("pause"); err != nil {
			return err
		}
		if pause := kind == events.TaskPaused; t.Task.Paused != pause {
			t.Emit(kind, &events.Paused{Reason: op.rules.CleanText(r.Reason)})
		}
		if kind == events.TaskResumed {
			t.Approvals().AskAgain(cmp.Or(r.Actor, decide.ActorNode))
		}
		return nil
	})
	if err != nil {
		return api.ControlReply{}, err
	}
	if kind == events.TaskResumed {
		op.engine.parts().resume(r.ID, cmp.Or(r.Actor, decide.ActorNode))
	}
	return op.controlReply(ctx, r.ID)
}

// controlReply returns the reply to a command on a task.
func (op *operations) controlReply(ctx context.Context, id events.TaskID) (api.ControlReply, error) {
	view, err := op.reader.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return api.ControlReply{}, err
	}
	op.lock()
	defer op.unlock()
	return api.ControlReply{Paused: slices.Clone(op.pauses.list), Task: &view}, nil
}

// Status implements api.Tasks.
func (op *operations) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	open, finished, memory := op.cfg.Lists.Open(), op.cfg.Lists.Finished(), memoryMiB()
	op.lock()
	reply := api.StatusReply{
		Ready: op.serving() == nil, Open: open, Finished: max(finished, len(op.engine.listed.lines)),
		Queued: op.engine.queue.dispatcher.Lengths(), Running: op.engine.queue.dispatcher.Running(), Workers: []api.WorkerView{}, Paused: slices.Clone(op.pauses.list),
		Store: "ok", StartedAt: op.started, MemoryMiB: memory,
	}
	if op.loss != nil {
		reply.SetRefusal(op.loss, time.Time{})
	}
	for name, w := range op.engine.queue.dispatcher.Workers() {
		queues := slices.DeleteFunc(slices.Clone(w.Queues), work.InternalQueue)
		if len(queues) == 0 {
			continue // it serves only the node itself
		}
		reply.Workers = append(reply.Workers, api.WorkerView{Name: name, Queues: queues, Running: w.Running(), SeenAt: w.Seen, Silent: op.engine.queue.dispatcher.Offline(w)})
	}
	op.unlock()
	slices.SortFunc(reply.Workers, func(a, b api.WorkerView) int { return compareText(a.Name, b.Name) })
	op.cfg.Hooks.Describe(&reply)
	return reply, nil
}

// memoryMiB returns the memory that the runtime has mapped. Unlike runtime.ReadMemStats it does not stop all goroutines.
func memoryMiB() int {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64() >> 20)
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
