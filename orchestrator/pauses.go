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

	// changing serializes changes of the pauses and of the archive run, which are stored before they take effect.
	changing sync.Mutex
	holds    []api.PauseView
	// configured is the pause of the configuration, which ends with the process; the zero value means none.
	configured api.PauseView
}

func newHoldList(c *core) *pauseList {
	h := &pauseList{core: c}
	if c.cfg.Paused {
		h.configured = api.PauseView{Kind: holdNode, Reason: "started paused", By: decide.ActorNode, At: c.cfg.Clock()}
		h.holds = []api.PauseView{h.configured}
	}
	return h
}

// The kinds of pauses.
const (
	holdNode  = "node"
	holdQueue = "queue"
	holdTool  = "tool"
)

// lanePaused reports whether the calls of a lane are paused.
func (hl *pauseList) lanePaused(l dispatch.Lane) bool {
	return hl.paused(holdQueue, l.Queue) || hl.paused(holdTool, l.Tool)
}

// paused reports whether the node, a queue or a tool is paused. mu must be held.
func (hl *pauseList) paused(kind, name string) bool {
	for _, h := range hl.holds {
		if h.Kind == kind && h.Name == name {
			return true
		}
	}
	return false
}

func holdOf(r api.PauseRequest) api.PauseView {
	switch {
	case r.Queue != "":
		return api.PauseView{Kind: holdQueue, Name: r.Queue}
	case r.Tool != "":
		return api.PauseView{Kind: holdTool, Name: r.Tool}
	default:
		return api.PauseView{Kind: holdNode}
	}
}

func removeHold(holds []api.PauseView, gone api.PauseView) []api.PauseView {
	return slices.DeleteFunc(slices.Clone(holds), func(h api.PauseView) bool { return h.Kind == gone.Kind && h.Name == gone.Name })
}

// changePauses stores a change of the pauses and then applies it.
func (op *operations) changePauses(ctx context.Context, change func([]api.PauseView) ([]api.PauseView, error)) (api.ControlReply, error) {
	op.holds.changing.Lock()
	defer op.holds.changing.Unlock()
	op.lock()
	holds, err := change(op.holds.holds)
	op.unlock()
	if err != nil {
		return api.ControlReply{}, err
	}
	lasting := slices.DeleteFunc(slices.Clone(holds), func(h api.PauseView) bool { return h == op.holds.configured })
	if _, err := op.cfg.Checkpoints.Save(ctx, controlTask, controlID, decide.MustJSON(lasting)); err != nil {
		return api.ControlReply{}, err
	}
	op.lock()
	defer op.unlock()
	op.holds.holds = holds
	op.engine.queue.dispatcher.Refresh()
	op.engine.queue.dispatcher.Dispatch()
	return api.ControlReply{Paused: slices.Clone(holds)}, nil
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
	var holds []api.PauseView
	if err := json.Unmarshal(data, &holds); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the list of what is paused is damaged")
	}
	op.lock()
	defer op.unlock()
	for _, h := range op.holds.holds {
		holds = append(removeHold(holds, h), h)
	}
	op.holds.holds = holds
	return nil
}
