package main

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// This file goes on with a task that somebody has approved where no node runs: it would stand still otherwise.

// approve grants an approval, and goes on with its task when this process is the node.
func (c *approvalCommands) approve(ctx context.Context, r api.DecideRequest, o waitOptions) error {
	if o.detach || !o.wait {
		return c.decide(ctx, r)
	}
	return c.with(ctx, working, func(s session) error {
		p, err := c.decideAs(ctx, s, r)
		if err != nil {
			return err
		}
		if !s.Embedded() || p.Status != statemachine.ApprovalGranted {
			return c.showDecision(p)
		}
		id, err := topTask(ctx, s, p.Task)
		if err != nil {
			return err
		}
		c.note("%s; no node runs here, so this command goes on with %s", decided(p), id)
		return c.wait.await(ctx, s, id, o)
	})
}

// topTask returns the first of the tasks that have led to a task.
func topTask(ctx context.Context, s session, id events.TaskID) (events.TaskID, error) {
	for {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil || t.Parent == "" {
			return id, err
		}
		id = t.Parent
	}
}

// noteLeft says who goes on with a task that was decided about where no node runs.
func (c *approvalCommands) noteLeft(s session, p api.ApprovalView) {
	if s.Embedded() && p.Status != statemachine.ApprovalPending && !p.TaskState.Terminal() {
		c.note("no node runs here; the task goes on with: orch watch %s (or: orch serve)", p.Task)
	}
}

// withoutNode says of a call for which no worker is there what helps where no node runs.
func withoutNode(c api.Cause, id events.TaskID) api.Cause {
	if c.Kind == "no_worker" && c.Next == "orch worker --queue default" {
		c.Sentence += " No node runs here."
		c.Next = "orch watch " + string(id) + " (goes on with it; so does: orch serve)"
	}
	return c
}
