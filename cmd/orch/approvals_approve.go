package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file contains `orch approve`. It decides, and waits for the task only on request.

// approve grants an approval. If the user wants to wait, it waits for the task, and continues it if this process is the node.
func (c *approvalCommands) approve(ctx context.Context, r api.DecideRequest, o waitOptions) error {
	if o.leaves() {
		return c.decide(ctx, r)
	}
	return c.with(ctx, working, func(s session) error {
		p, err := c.decideAs(ctx, s, r)
		if err != nil {
			return err
		}
		if p.Status != statemachine.ApprovalGranted {
			return c.showDecision(p)
		}
		t, err := topTask(ctx, s, p.Task)
		if err != nil {
			return err
		}
		if s.Embedded() {
			c.note("%s; no node runs here, so this command goes on with %s", decisionText(p), t.ID)
		} else {
			c.note("%s", decisionText(p))
		}
		return c.wait.await(ctx, s, t.ID, o)
	})
}

// topTask returns the topmost parent of a task.
func topTask(ctx context.Context, s session, id events.TaskID) (api.TaskView, error) {
	for {
		t, err := s.Get(ctx, api.GetRequest{ID: id})
		if err != nil || t.Parent == "" {
			return t, err
		}
		id = t.Parent
	}
}

// noteLeft notes on stderr which command continues the task, if a decision was made while no node runs.
func (c *approvalCommands) noteLeft(ctx context.Context, s session, p api.ApprovalView) {
	if !s.Embedded() || p.Status == statemachine.ApprovalPending {
		return
	}
	t, err := topTask(ctx, s, p.Task)
	if err != nil || t.State.Terminal() {
		return // the decision is made, and shown
	}
	next := "orch watch " + string(t.ID)
	if err := c.checkContinued(ctx, s, t.ID); err != nil {
		next = cmp.Or(fault.From(err).Hint, next)
	}
	c.note("no node runs here; the task goes on with: %s (or: orch serve)", next)
}

// withoutNode returns the cause "no worker" with a hint for the case that no node runs. It returns other causes unchanged.
func withoutNode(c api.Cause, id events.TaskID) api.Cause {
	if c.Kind == "no_worker" && strings.HasPrefix(c.Next, "orch worker --queue default") {
		c.Sentence += " No node runs here."
		c.Next = "orch watch " + string(id) + " (goes on with it; so does: orch serve)"
	}
	return c
}
