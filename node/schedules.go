package node

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/scheduler"
	"github.com/orch-dev/orch/sender"
)

// commands is the API of a node in its process.
type commands struct {
	*orchestrator.Orchestrator
	*scheduler.Scheduler
	*receiver.Receiver
	*sender.Sender
	api.Audits
	taskFiles
	stores

	host *host
}

// Retention implements api.Tasks. It adds the workspaces to what the orchestrator says about tasks.
func (c commands) Retention(ctx context.Context, r api.RetentionRequest) (api.RetentionReply, error) {
	reply, err := c.Orchestrator.Retention(ctx, r)
	reply.Outside = c.host.outsidePlace()
	if err == nil {
		err = c.host.addWorkspaces(ctx, &reply)
	}
	return reply, err
}

// Status implements api.Tasks. It adds the space of the store, and how commands reach the node.
func (c commands) Status(ctx context.Context, r api.StatusRequest) (api.StatusReply, error) {
	reply, err := c.Orchestrator.Status(ctx, r)
	c.host.addReach(&reply)
	if err != nil || !c.host.cfg.local() {
		return reply, err
	}
	if s, err := c.host.store.Status(ctx); err == nil { // Store says what is wrong with it
		reply.Storage = &api.StorageView{Used: s.Used, MaxStore: s.MaxStore, Free: s.Free, MinFree: s.MinFree}
	}
	return reply, nil
}

var _ api.API = commands{}

// commands returns the API of the node.
func (h *host) commands() api.API {
	return commands{h.orch, h.scheduler, h.receiver, h.sender, h.acts.Load(), taskFiles{h}, stores{h.store, h.cfg.members}, h}
}

// newScheduler returns a scheduler that submits to the orchestrator.
func (h *host) newScheduler() *scheduler.Scheduler {
	root := ""
	if h.cfg.local() {
		root = h.executor.root.Name()
	}
	return scheduler.New(scheduler.Config{Root: root, Held: h.orch.NodePaused, Redact: h.redactText, Tasks: h.orch, Open: opens(h, bus.SchedulesJournal, ofState), Clock: h.cfg.wall(), Logger: h.cfg.logger()})
}

// readSchedules reads the schedules, before clients can change them.
func (n *Node) readSchedules(ctx context.Context) error { return n.scheduler.Start(ctx) }

// runSchedules starts tasks when schedules are due.
func (n *Node) runSchedules(ctx context.Context) error { return n.runService(ctx, n.scheduler.Run) }

// runService runs a service until the node stops. A temporary node, which ends with a command, leaves that to permanent ones.
func (n *Node) runService(ctx context.Context, service func(context.Context)) error {
	if n.cfg.Guest != "" {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		service(run)
	}()
	n.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}
