package node

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/scheduler"
)

// commands is the API of a node in its process.
type commands struct {
	*orchestrator.Orchestrator
	*scheduler.Scheduler
	*receiver.Receiver
	api.Audits
}

var _ api.API = commands{}

// commands returns the API of the node.
func (h *host) commands() api.API { return commands{h.orch, h.scheduler, h.receiver, h.acts.Load()} }

// newScheduler returns a scheduler that submits to the orchestrator.
func (h *host) newScheduler() *scheduler.Scheduler {
	root := ""
	if h.cfg.local() {
		root = h.executor.root.Name()
	}
	return scheduler.New(scheduler.Config{Root: root, Held: h.orch.NodePaused, Redact: h.redactText, Tasks: h.orch, Open: h.openSchedules, Clock: h.cfg.wall(), Logger: h.cfg.logger()})
}

// openSchedules opens the journal of the schedules; nil if there is none and it is not to be created.
func (h *host) openSchedules(ctx context.Context, create bool) (scheduler.Journal, error) {
	if !create {
		if exists, err := h.store.HasJournal(ctx, bus.SchedulesJournal); err != nil || !exists {
			return nil, err
		}
	}
	journal, err := h.store.OpenJournal(ctx, bus.SchedulesJournal)
	if err != nil {
		return nil, err // and no journal: a nil pointer in the interface would count as one
	}
	return journal, nil
}

// readSchedules reads the schedules, before clients can change them.
func (n *Node) readSchedules(ctx context.Context) error { return n.scheduler.Start(ctx) }

// runSchedules starts tasks when schedules are due. A temporary node, which ends with a command, leaves that to permanent ones.
func (n *Node) runSchedules(ctx context.Context) error {
	if n.cfg.Guest != "" {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.scheduler.Run(run)
	}()
	n.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}
