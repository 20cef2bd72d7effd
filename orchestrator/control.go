package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
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

// Pause implements api.API.
func (o *Orchestrator) Pause(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	if err := o.checkPause(&r); err != nil {
		return api.ControlReply{}, err
	}
	if r.ID != "" {
		if r.Checkpoint != "" {
			return api.ControlReply{}, fault.New(fault.ValidationError, "only resume takes a checkpoint").WithField("checkpoint")
		}
		return o.pauseTask(ctx, r, events.TaskPaused)
	}
	hold := holdOf(r)
	hold.At, hold.Reason, hold.By = o.now(), o.rules.CleanText(r.Reason), cmp.Or(r.Actor, decide.ActorNode)
	return o.setHolds(ctx, func(holds []api.Hold) ([]api.Hold, error) {
		if holds = append(removeHold(holds, hold), hold); len(holds) > maxHolds {
			return nil, fault.New(fault.QuotaExceeded, "%d things are paused, the limit", maxHolds).WithHint("orch resume some of them, or pause the node")
		}
		return holds, nil
	})
}

// Resume implements api.API.
func (o *Orchestrator) Resume(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	if err := o.checkPause(&r); err != nil {
		return api.ControlReply{}, err
	}
	if r.ID != "" {
		if r.Checkpoint != "" {
			return o.resumeAt(ctx, r)
		}
		return o.pauseTask(ctx, r, events.TaskResumed)
	}
	return o.setHolds(ctx, func(holds []api.Hold) ([]api.Hold, error) { return removeHold(holds, holdOf(r)), nil })
}

// maxHolds bounds what can be paused at the same time.
const maxHolds = 1000

// checkPause also gives the tool the name that counts.
func (o *Orchestrator) checkPause(r *api.PauseRequest) error {
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
		tool, ok := o.cfg.Catalogue.Get(r.Tool)
		if !ok {
			return fault.New(fault.NotFound, "there is no tool %q", decide.Clip(r.Tool)).WithField("tool").WithHint("orch tools list")
		}
		r.Tool = tool.Spec().Name
	}
	return o.serving()
}

func holdOf(r api.PauseRequest) api.Hold {
	switch {
	case r.Queue != "":
		return api.Hold{Kind: holdQueue, Name: r.Queue}
	case r.Tool != "":
		return api.Hold{Kind: holdTool, Name: r.Tool}
	default:
		return api.Hold{Kind: holdNode}
	}
}

func removeHold(holds []api.Hold, gone api.Hold) []api.Hold {
	return slices.DeleteFunc(slices.Clone(holds), func(h api.Hold) bool { return h.Kind == gone.Kind && h.Name == gone.Name })
}

// setHolds makes a change of what is paused durable, then effective.
func (o *Orchestrator) setHolds(ctx context.Context, change func([]api.Hold) ([]api.Hold, error)) (api.ControlReply, error) {
	o.holding.Lock()
	defer o.holding.Unlock()
	o.lock()
	holds, err := change(o.holds)
	o.unlock()
	if err != nil {
		return api.ControlReply{}, err
	}
	lasting := slices.DeleteFunc(slices.Clone(holds), func(h api.Hold) bool { return h == o.configured })
	if _, err := o.cfg.Checkpoints.Save(ctx, controlTask, controlID, decide.MustJSON(lasting)); err != nil {
		return api.ControlReply{}, err
	}
	o.lock()
	defer o.unlock()
	o.holds = holds
	o.dispatcher.Refresh()
	o.dispatcher.Dispatch()
	return api.ControlReply{Paused: slices.Clone(holds)}, nil
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
	var holds []api.Hold
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

func (o *Orchestrator) pauseTask(ctx context.Context, r api.PauseRequest, kind events.Kind) (api.ControlReply, error) {
	err := o.change(ctx, r.ID, r.Actor, func(t *decide.Turn) error {
		if err := t.Over("pause"); err != nil {
			return err
		}
		if pause := kind == events.TaskPaused; t.Task.Paused != pause {
			t.Emit(kind, &events.Paused{Reason: o.rules.CleanText(r.Reason)})
		}
		if kind == events.TaskResumed {
			t.Approvals().AskAgain(cmp.Or(r.Actor, decide.ActorNode))
		}
		return nil
	})
	if err != nil {
		return api.ControlReply{}, err
	}
	return o.controlled(ctx, r.ID)
}

// controlled answers a command about a task.
func (o *Orchestrator) controlled(ctx context.Context, id events.TaskID) (api.ControlReply, error) {
	view, err := o.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return api.ControlReply{}, err
	}
	o.lock()
	defer o.unlock()
	return api.ControlReply{Paused: slices.Clone(o.holds), Task: &view}, nil
}

// Status implements api.API.
func (o *Orchestrator) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	o.lock()
	reply := api.StatusReply{
		Ready: o.serving() == nil, Open: len(o.listed.waiting), Finished: len(o.listed.lines) - len(o.listed.waiting),
		Queued: o.dispatcher.Lengths(), Running: o.dispatcher.Running(), Workers: []api.WorkerView{}, Paused: slices.Clone(o.holds),
		Store: "ok", StartedAt: o.started, MemoryMiB: int(mem.Sys >> 20),
	}
	if o.loss != nil {
		reply.Refuse(o.loss, time.Time{})
	}
	for name, w := range o.dispatcher.Workers() {
		queues := slices.DeleteFunc(slices.Clone(w.Queues), func(q string) bool { return q == work.NodeQueue })
		if len(queues) == 0 {
			continue // it is there for the node itself
		}
		reply.Workers = append(reply.Workers, api.WorkerView{Name: name, Queues: queues, Running: w.Running(), SeenAt: w.Seen, Silent: o.dispatcher.Mute(w)})
	}
	o.unlock()
	slices.SortFunc(reply.Workers, func(a, b api.WorkerView) int { return compareText(a.Name, b.Name) })
	o.cfg.Describe(&reply)
	return reply, nil
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
