package main

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// This file contains `orch approve`. If no node runs, the command itself continues the approved task.

// approve grants an approval, and continues its task if this process is the node.
func (c *approvalCommands) approve(ctx context.Context, r api.DecideRequest, o waitOptions) error {
	if o.leaves() {
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
		c.note("%s; no node runs here, so this command goes on with %s", decisionText(p), id)
		return c.wait.await(ctx, s, id, o)
	})
}

// topTask returns the topmost parent of a task.
func topTask(ctx context.Context, s session, id events.TaskID) (events.TaskID, error) {
	for {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil || t.Parent == "" {
			return id, err
		}
		id = t.Parent
	}
}

// noteLeft notes on stderr which command continues the task, if a decision was made while no node runs.
func (c *approvalCommands) noteLeft(s session, p api.ApprovalView) {
	if s.Embedded() && p.Status != statemachine.ApprovalPending && !p.TaskState.Terminal() {
		c.note("no node runs here; the task goes on with: orch watch %s (or: orch serve)", p.Task)
	}
}

// withoutNode returns the cause "no worker" with a hint for the case that no node runs. It returns other causes unchanged.
func withoutNode(c api.Cause, id events.TaskID) api.Cause {
	if c.Kind == "no_worker" && c.Next == "orch worker --queue default" {
		c.Sentence += " No node runs here."
		c.Next = "orch watch " + string(id) + " (goes on with it; so does: orch serve)"
	}
	return c
}
