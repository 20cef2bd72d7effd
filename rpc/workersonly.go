package rpc

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// workersOnly is an Owner for clients with the credential of workers. It refuses workers that claim to be registered agents: an
// agent has its own credential, and the checks of a call run before the agent receives it.
type workersOnly struct{ Owner }

// Poll implements work.Owner.
func (w workersOnly) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if err := noAgent(p.Worker, p.Agent != nil); err != nil {
		return work.Batch{}, err
	}
	return w.Owner.Poll(ctx, p)
}

// Start implements work.Owner.
func (w workersOnly) Start(ctx context.Context, s work.Started) error {
	if err := noAgent(s.Worker, false); err != nil {
		return err
	}
	return w.Owner.Start(ctx, s)
}

// Heartbeat implements work.Owner.
func (w workersOnly) Heartbeat(ctx context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	if err := noAgent(b.Worker, false); err != nil {
		return work.HeartbeatReply{}, err
	}
	return w.Owner.Heartbeat(ctx, b)
}

// ReportThen implements Owner.
func (w workersOnly) ReportThen(ctx context.Context, o *work.Outcome, done func(error)) {
	if err := noAgent(o.Worker, o.HandTo != nil); err != nil {
		done(err)
		return
	}
	w.Owner.ReportThen(ctx, o, done)
}

// noAgent returns FORBIDDEN for a worker that claims to be an agent, by its name or by other fields of its request.
func noAgent(worker string, claimed bool) error {
	if claimed || strings.HasPrefix(worker, agents.Prefix) {
		return fault.New(fault.Forbidden, "a worker is not a registered agent").WithField("worker").
			WithHint("agents speak to the node over HTTP, with credentials of their own")
	}
	return nil
}
