package orchestrator

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
)

// pauseList holds the pauses of the node, of queues and of tools. A pause of a task is in the task's history instead.
type pauseList struct {
	*core

	// changing serializes changes of the pauses and changes of the archive run (archiving.go). Each change is stored before it
	// takes effect.
	changing sync.Mutex
	list     []api.PauseView
	// configured is the pause from Config.Paused. It is not stored and ends with the process; the zero value means none.
	configured api.PauseView
}

func newPauseList(c *core) *pauseList {
	h := &pauseList{core: c}
	if c.cfg.Paused {
		h.configured = api.PauseView{Kind: pauseNode, Reason: "started paused", By: decide.ActorNode, At: c.cfg.Clock()}
		h.list = []api.PauseView{h.configured}
	}
	return h
}

// The kinds of pauses.
const (
	pauseNode  = "node"
	pauseQueue = "queue"
	pauseTool  = "tool"
)

// lanePaused reports whether the calls of a lane are paused.
func (pl *pauseList) lanePaused(l dispatch.Lane) bool {
	return pl.paused(pauseQueue, l.Queue) || pl.paused(pauseTool, l.Tool)
}

// paused reports whether the node, a queue or a tool is paused. mu must be held.
func (pl *pauseList) paused(kind, name string) bool {
	for _, h := range pl.list {
		if h.Kind == kind && h.Name == name {
			return true
		}
	}
	return false
}

// NodePaused reports whether the whole node is paused.
func (op *operations) NodePaused() bool {
	op.lock()
	defer op.unlock()
	return op.pauses.paused(pauseNode, "")
}

func pauseOf(r api.PauseRequest) api.PauseView {
	switch {
	case r.Queue != "":
		return api.PauseView{Kind: pauseQueue, Name: r.Queue}
	case r.Tool != "":
		return api.PauseView{Kind: pauseTool, Name: r.Tool}
	default:
		return api.PauseView{Kind: pauseNode}
	}
}

func removePause(pauses []api.PauseView, gone api.PauseView) []api.PauseView {
	return slices.DeleteFunc(slices.Clone(pauses), func(h api.PauseView) bool { return h.Kind == gone.Kind && h.Name == gone.Name })
}

// changePauses stores a change of the pauses and then applies it.
func (op *operations) changePauses(ctx context.Context, change func([]api.PauseView) ([]api.PauseView, error)) (api.ControlReply, error) {
	op.pauses.changing.Lock()
	defer op.pauses.changing.Unlock()
	op.lock()
	pauses, err := change(op.pauses.list)
	op.unlock()
	if err != nil {
		return api.ControlReply{}, err
	}
	lasting := slices.DeleteFunc(slices.Clone(pauses), func(h api.PauseView) bool { return h == op.pauses.configured })
	if err := saveRecord(ctx, op.cfg.Checkpoints, controlID, lasting); err != nil {
		return api.ControlReply{}, err
	}
	op.lock()
	defer op.unlock()
	op.pauses.list = pauses
	op.engine.queue.dispatcher.Refresh()
	op.engine.queue.dispatcher.Dispatch()
	return api.ControlReply{Paused: slices.Clone(pauses)}, nil
}

// restorePauses reads the pauses that were stored before the restart.
func (op *operations) restorePauses(ctx context.Context) error {
	data, err := op.cfg.Checkpoints.Load(ctx, controlTask, controlID)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var pauses []api.PauseView
	if err := json.Unmarshal(data, &pauses); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the stored list of pauses is damaged")
	}
	op.lock()
	defer op.unlock()
	for _, h := range op.pauses.list {
		pauses = append(removePause(pauses, h), h)
	}
	op.pauses.list = pauses
	return nil
}
