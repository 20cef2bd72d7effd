package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Handed are the calls that an agent was given in one answer: as much of them as it takes to take them back.
type Handed struct {
	// Agent is the id of the agent, Name its name.
	Agent, Name string
	Calls       []HandedCall
}

// HandedCall is a call of an answer.
type HandedCall struct {
	work.Ref

	// times tells the answer from others with the same call.
	times int
}

// HandedTo returns the calls of an answer to an agent.
func HandedTo(m Member, w Work) Handed {
	h := Handed{Agent: m.ID, Name: m.Name, Calls: make([]HandedCall, len(w.Calls))}
	for i, a := range w.Calls {
		h.Calls[i] = HandedCall{a.Ref, a.times}
	}
	return h
}

// TakeBack gives the calls of an answer to others, because nobody was there to receive it: none of them was begun, so none
// is in doubt. Those that the agent has named, or was given again in another answer, stay with it. It says nothing of
// whether the agent is there. The error is that of the calls that the owner could not be told of: their leases end them.
func (d *Desk) TakeBack(ctx context.Context, h Handed) error {
	var failed []error
	for _, a := range d.regain(h) {
		failed = append(failed, d.tell(ctx, work.Outcome{
			Ref: a.Ref, Worker: Prefix + h.Name, StartedAt: events.Time(a.began), Duration: d.clock().Sub(a.began),
			Error: fault.New(fault.Unavailable, "the agent %s was gone when the call came", h.Name), Class: fault.ClassHandoff, HandTo: new(events.Agents),
		}))
	}
	return errors.Join(failed...)
}

// regain takes the calls of an answer from their agent, so that a claim cannot get them any more. It comes before the
// owner hears of them: a call that is with the agent and with others is made twice. So none comes back when that fails,
// because the owner may have heard.
func (d *Desk) regain(h Handed) (regained []Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(h.Agent, func(a Assignment) bool {
		if !a.named.IsZero() || !slices.Contains(h.Calls, HandedCall{a.Ref, a.times}) {
			return true
		}
		regained = append(regained, a)
		return false
	})
	return regained
}
