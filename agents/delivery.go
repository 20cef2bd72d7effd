package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Delivery identifies the calls in one answer to an agent. Requeue requeues these calls.
type Delivery struct {
	// Agent is the id of the agent, Name its name.
	Agent, Name string
	Calls       []DeliveredCall
}

// DeliveredCall is a call in an answer.
type DeliveredCall struct {
	work.Ref

	// redeliveries distinguishes answers that contain the same call.
	redeliveries int
}

// DeliveryTo returns the calls of an answer to an agent.
func DeliveryTo(m Member, w Work) Delivery {
	del := Delivery{Agent: m.ID, Name: m.Name, Calls: make([]DeliveredCall, len(w.Calls))}
	for i, a := range w.Calls {
		del.Calls[i] = DeliveredCall{a.Ref, a.redeliveries}
	}
	return del
}

// Requeue offers the calls of an answer to other agents, because nobody received the answer. None of the calls has
// started, so none is in doubt. Calls that the agent has confirmed, or that were delivered again in another answer,
// stay assigned. Requeue does not change the presence of the agent. It returns the errors of calls that could not be
// reported to the owner: these calls end when their leases expire.
func (d *Dispatcher) Requeue(ctx context.Context, del Delivery) error {
	var failed []error
	for _, a := range d.unassign(del) {
		failed = append(failed, d.report(ctx, work.Outcome{
			Ref: a.Ref, Worker: Prefix + del.Name, StartedAt: events.Time(a.startedAt), Duration: d.clock().Sub(a.startedAt),
			Error: fault.New(fault.Unavailable, "the agent %s was gone when the call came", del.Name), Class: fault.ClassHandoff, HandTo: new(events.Agents),
		}))
	}
	return errors.Join(failed...)
}

// unassign removes the calls of an answer from their agent, so that a claim no longer returns them. It runs before the
// report to the owner. Otherwise this agent and the next one could both execute the call. For the same reason a call is
// not restored when the report fails: the owner may have received it.
func (d *Dispatcher) unassign(del Delivery) (removed []Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retain(del.Agent, func(a Assignment) bool {
		if !a.confirmedAt.IsZero() || !slices.Contains(del.Calls, DeliveredCall{a.Ref, a.redeliveries}) {
			return true
		}
		removed = append(removed, a)
		return false
	})
	return removed
}
