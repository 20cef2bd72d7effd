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

// This file holds the dispatcher's state in memory: the calls assigned to agents, and the processes (instances) that
// act for them.

// instanceRecord is the current process of an agent, and its former processes.
type instanceRecord struct {
	current string
	former  []string
}

const (
	// maxInstance bounds the name of a process, in bytes. maxFormer bounds the remembered former processes.
	maxInstance = 64
	maxFormer   = 16
)

// updateInstance records the current process of an agent, and the calls that this process works on. Calls that a former
// process confirmed and the current process does not list are lost. updateInstance reports them to the owner
// immediately, before their leases expire. A lost call that it cannot report stays assigned, and the next request of
// the agent reports it.
func (d *Dispatcher) updateInstance(ctx context.Context, m Member, instance string, has []work.Ref) error {
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
		if err := d.report(context.WithoutCancel(ctx), work.Outcome{
			Ref: a.Ref, Worker: m.Actor(), StartedAt: events.Time(a.startedAt), Duration: d.clock().Sub(a.startedAt), Class: fault.ClassWorkerLost,
			Error: fault.New(fault.WorkerLost, "the agent %s has started anew without the call", m.Name),
		}); err != nil {
			failed = append(failed, err)
			d.restore(m, a)
		}
	}
	return errors.Join(failed...)
}

// switchInstance makes a process the current one of an agent, and returns the calls of other processes that are lost.
// It returns CONFLICT for a process that was replaced before: its request is late.
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
		isLost := a.instance != "" && a.instance != instance
		if isLost {
			lost = append(lost, a)
		}
		return !isLost
	})
	return lost, nil
}

// restore assigns a call to its agent again, after its loss could not be reported.
func (d *Dispatcher) restore(m Member, a Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assigned[m.ID] = append(d.assigned[m.ID], a)
}

// dropRemoved implements the hook of OnSweep: the returned function drops the state of agents that are not in the
// roster.
func (d *Dispatcher) dropRemoved() func(Roster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(d.assigned)), maps.Keys(d.instances))
	return func(roster Roster) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range known {
			if !roster.IDs[id] {
				delete(d.assigned, id)
				delete(d.instances, id)
			}
		}
	}
}

// confirm records which calls an agent works on. It drops a confirmed call that the agent has not listed again within
// the lease, because the owner has ended that call. d.mu must be held.
func (d *Dispatcher) confirm(m Member, instance string, refs []work.Ref) {
	now := d.clock()
	for i := range d.assigned[m.ID] {
		if a := &d.assigned[m.ID][i]; slices.Contains(refs, a.Ref) {
			a.confirmedAt, a.instance = now, instance
		}
	}
	d.retain(m.ID, func(a Assignment) bool { return a.confirmedAt.IsZero() || now.Sub(a.confirmedAt) <= a.Lease })
}

// unconfirmed returns the assigned calls that an agent has never confirmed.
func (d *Dispatcher) unconfirmed(m Member) []Assignment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.assigned[m.ID]), func(a Assignment) bool { return !a.confirmedAt.IsZero() })
}

// redeliver records that calls are delivered again, at most limit of them, and returns these calls. It skips calls that
// were confirmed or stopped meanwhile.
func (d *Dispatcher) redeliver(m Member, calls []Assignment, stopped []work.Ref, limit int) []Assignment {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	var again []Assignment
	for i := range d.assigned[m.ID] {
		a := &d.assigned[m.ID][i]
		lost := slices.ContainsFunc(calls, func(c Assignment) bool { return c.Ref == a.Ref }) && !slices.Contains(stopped, a.Ref)
		if !lost || !a.confirmedAt.IsZero() || len(again) >= limit {
			continue
		}
		a.redeliveries++
		a.Remaining = a.Deadline.Sub(now)
		again = append(again, *a)
	}
	return again
}

// capacity returns how many more calls the agent may have.
func (d *Dispatcher) capacity(m Member, has []work.Ref) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(m.MaxTasks-max(len(has), len(d.assigned[m.ID])), 0)
}

// unassignCalls drops assignments by call.
func (d *Dispatcher) unassignCalls(m Member, refs []work.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retain(m.ID, func(a Assignment) bool { return !slices.Contains(refs, a.Ref) })
}

// retain keeps only the assignments of an agent for which keep returns true. d.mu must be held.
func (d *Dispatcher) retain(agent string, keep func(Assignment) bool) {
	d.assigned[agent] = slices.DeleteFunc(d.assigned[agent], func(a Assignment) bool { return !keep(a) })
	if len(d.assigned[agent]) == 0 {
		delete(d.assigned, agent)
	}
}

// overdue returns the calls of an agent that are past their deadline.
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

// startOf returns when a call started; known is false if this node did not assign it to the agent.
func (d *Dispatcher) startOf(m Member, ref work.Ref, now time.Time) (at time.Time, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.assigned[m.ID] {
		if a.Ref == ref {
			return a.startedAt, true
		}
	}
	return now, false
}
