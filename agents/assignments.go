package agents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// This file is about what a dispatcher remembers of the calls that agents were given, and of who speaks for them.

// instanceRecord is which process speaks for an agent, and which ones did before.
type instanceRecord struct {
	current string
	former  []string
}

const (
	// maxInstance bounds the bytes of the name of a process, maxFormer how many are remembered that spoke before.
	maxInstance = 64
	maxFormer   = 16
)

// noteInstance notes who speaks for an agent, and which calls it has. Those that another process has named, and this one does not,
// are lost: their owner hears of it now, and not when their leases end. What it cannot hear it is told the next time.
func (d *Dispatcher) noteInstance(ctx context.Context, m Member, instance string, has []work.Ref) error {
	if len(instance) > maxInstance {
		return fault.New(fault.ValidationError, "has more than %d bytes", maxInstance).WithField("instance")
	}
	d.registry.sweep(ctx)
	lost, err := d.switchInstance(m, instance, has)
	if err != nil {
		return err
	}
	var failed []error
	for _, a := range lost {
		if err := d.tell(context.WithoutCancel(ctx), work.Outcome{
			Ref: a.Ref, Worker: m.Actor(), StartedAt: events.Time(a.began), Duration: d.clock().Sub(a.began), Class: fault.ClassWorkerLost,
			Error: fault.New(fault.WorkerLost, "the agent %s has started anew without the call", m.Name),
		}); err != nil {
			failed = append(failed, err)
			d.putBack(m, a)
		}
	}
	return errors.Join(failed...)
}

// switchInstance lets a process speak for an agent, and returns the calls of others that are lost by that. CONFLICT for one that has spoken
// before the present one did: what it says comes late.
func (d *Dispatcher) switchInstance(m Member, instance string, has []work.Ref) (lost []Assignment, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.instances[m.ID]
	if instance != "" && s == nil {
		s = &instanceRecord{current: instance}
		d.instances[m.ID] = s
	}
	if instance != "" && slices.Contains(s.former, instance) {
		return nil, fault.New(fault.Conflict, "another process is the agent %s now", m.Name).WithField("instance").WithHint("let one process at a time use a credential")
	}
	d.confirm(m, instance, has)
	if instance == "" {
		return nil, nil
	}
	if s.current != instance {
		s.former = append(s.former[max(len(s.former)+1-maxFormer, 0):], s.current)
		s.current = instance
	}
	d.retain(m.ID, func(a Assignment) bool {
		gone := a.instance != "" && a.instance != instance
		if gone {
			lost = append(lost, a)
		}
		return !gone
	})
	return lost, nil
}

// putBack undoes that a call was taken from an agent.
func (d *Dispatcher) putBack(m Member, a Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assigned[m.ID] = append(d.assigned[m.ID], a)
}

// drop forgets agents that are gone, of those that there are now.
func (d *Dispatcher) drop() func(Living) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(d.assigned)), maps.Keys(d.instances))
	return func(living Living) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range known {
			if !living.IDs[id] {
				delete(d.assigned, id)
				delete(d.instances, id)
			}
		}
	}
}

// confirm notes which calls an agent has. Those that it has named and is silent about for their lease are no longer its
// own: their owner has given them up. The lock is held.
func (d *Dispatcher) confirm(m Member, instance string, refs []work.Ref) {
	now := d.clock()
	for i := range d.assigned[m.ID] {
		if a := &d.assigned[m.ID][i]; slices.Contains(refs, a.Ref) {
			a.confirmedAt, a.instance = now, instance
		}
	}
	d.retain(m.ID, func(a Assignment) bool { return a.confirmedAt.IsZero() || now.Sub(a.confirmedAt) <= a.Lease })
}

// unconfirmed returns the calls that an agent was given and has never named.
func (d *Dispatcher) unconfirmed(m Member) []Assignment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.assigned[m.ID]), func(a Assignment) bool { return !a.confirmedAt.IsZero() })
}

// redeliver notes that calls are given once more, so many at most, and returns them. What was named or taken back meanwhile is
// none of them.
func (d *Dispatcher) redeliver(m Member, calls []Assignment, stopped []work.Ref, most int) []Assignment {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	var again []Assignment
	for i := range d.assigned[m.ID] {
		a := &d.assigned[m.ID][i]
		lost := slices.ContainsFunc(calls, func(c Assignment) bool { return c.Ref == a.Ref }) && !slices.Contains(stopped, a.Ref)
		if !lost || !a.confirmedAt.IsZero() || len(again) >= most {
			continue
		}
		a.redeliveries++
		a.Left = a.Deadline.Sub(now)
		again = append(again, *a)
	}
	return again
}

// capacity is how many more calls the agent may have.
func (d *Dispatcher) capacity(m Member, has []work.Ref) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(m.MaxTasks-max(len(has), len(d.assigned[m.ID])), 0)
}

// forget drops calls that an agent no longer has.
func (d *Dispatcher) forget(m Member, refs []work.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retain(m.ID, func(a Assignment) bool { return !slices.Contains(refs, a.Ref) })
}

// retain drops all calls of an agent but those. The lock is held.
func (d *Dispatcher) retain(agent string, which func(Assignment) bool) {
	d.assigned[agent] = slices.DeleteFunc(d.assigned[agent], func(a Assignment) bool { return !which(a) })
	if len(d.assigned[agent]) == 0 {
		delete(d.assigned, agent)
	}
}

// overdue returns the calls of an agent whose time is over.
func (d *Dispatcher) overdue(m Member) []Assignment {
	d.mu.Lock()
	defer d.mu.Unlock()
	var late []Assignment
	for _, a := range d.assigned[m.ID] {
		if d.clock().After(a.Deadline) {
			late = append(late, a)
		}
	}
	return late
}

// began is when a call began, if this node knows that the agent has it.
func (d *Dispatcher) began(m Member, ref work.Ref, now time.Time) (at time.Time, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.assigned[m.ID] {
		if a.Ref == ref {
			return a.began, true
		}
	}
	return now, false
}
