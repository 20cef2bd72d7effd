package server

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Role returns the role of the identity.
func (b *ToolCaller) Role() Role { return b.c.who.Role }

// Narrowed reports whether the identity sees only some tools, or only reads.
func (b *ToolCaller) Narrowed() bool { return !b.c.who.Show.all() }

// Owns reports whether a task belongs to the identity: the identity has submitted it, or the task that started it. It returns
// false for a task that does not exist. The role and the time to live of the task do not matter.
func (b *ToolCaller) Owns(ctx context.Context, id events.TaskID) (bool, error) {
	t, err := b.s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if fault.Has(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && b.s.ownerOf(ctx, t) == b.Name(), err
}

// Restrict restricts a submission to the permissions of the identity, as orch_submit does. call is the id of the call that the
// identity is working on and for which it submits the task (work.Ref); may be empty.
func (b *ToolCaller) Restrict(r *api.SubmitRequest, call string) error {
	c := b.c
	c.call, r.NoSecrets = call, true
	return b.s.tools.restrict(c, r)
}
