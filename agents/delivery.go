package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Delivery are the calls that an agent was given in one answer: as much of them as it takes to take them back.
type Delivery struct {
	// Agent is the id of the agent, Name its name.
	Agent, Name string
	Calls       []DeliveredCall
}

// DeliveredCall is a call of an answer.
type DeliveredCall struct {
	work.Ref

	// redeliveries tells the answer from others with the same call.
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

// Requeue gives the calls of an answer to others, because nobody was there to receive it: none of them was begun, so none
// is in doubt. Those that the agent has named, or was given again in another answer, stay with it. It says nothing of
// whether the agent is there. The error is that of the calls that the owner could not be told of: their leases end them.
func (d *Dispatcher) Requeue(ctx context.Context, del Delivery) error {
	var failed []error
	for _, a := range d.unassign(del) {
		failed = append(failed, d.tell(ctx, work.Outcome{
			Ref: a.Ref, Worker: Prefix + del.Name, StartedAt: events.Time(a.began), Duration: d.clock().Sub(a.began),
			Error: fault.New(fault.Unavailable, "the agent %s was gone when the call came", del.Name), Class: fault.ClassHandoff, HandTo: new(events.Agents),
		}))
	}
	return errors.Join(failed...)
}

// unassign takes the calls of an answer from their agent, so that a claim cannot get them any more. It comes before the
// owner hears of them: a call that is with the agent and with others is made twice. So none comes back when that fails,
// because the owner may have heard.
func (d *Dispatcher) unassign(del Delivery) (regained []Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retain(del.Agent, func(a Assignment) bool {
		if !a.confirmedAt.IsZero() || !slices.Contains(del.Calls, DeliveredCall{a.Ref, a.redeliveries}) {
			return true
		}
		regained = append(regained, a)
		return false
	})
	return regained
}
