// Package dispatch assigns ready calls to workers, in memory. Calls wait in lanes (see Lane), ordered by priority and age.
// Workers wait with long polls. A worker holds a call by a lease, which expires if the worker is silent for too long.
//
// A Dispatcher has no lock and no goroutine. The caller must hold the lock of the owner, and the dispatcher calls the owner
// (Owner) under the same lock. Its methods do not block: the channel of a Poller has room for its only delivery.
package dispatch

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Owner is the part of the orchestrator that owns the tasks of the calls.
type Owner interface {
	// Halted reports whether the dispatch of all calls is paused, Paused whether the dispatch of a lane is paused.
	Halted() bool
	Paused(l Lane) bool
	// Lease leases a dequeued call to a worker, with Dispatcher.AddLease, and returns the offer for the worker. It returns nil
	// if the call may not be made any more: its step has moved on, or its task is paused or barred.
	Lease(q *Queued, worker string) *Offer
	// Requeue returns a leased call that its worker never received to its queue.
	Requeue(worker string, call work.Ref)
}

// Config configures a Dispatcher. All fields but Limits and WakeAt are required.
type Config struct {
	Owner Owner
	// Now returns the current time.
	Now func() time.Time
	// OfflineAfter is the silence after which a worker counts as offline.
	OfflineAfter time.Duration
	// Slots returns how many calls may ask a provider of models at the same time; 0 for no limit.
	Slots func(provider string) int
	// Limits bound the calls. WakeAt requests that the owner calls Wake at a time; without Limits it is not called.
	Limits []Limit
	WakeAt func(at time.Time)
	// The first batch gets the number LastBatch+1. Batch numbers must be unique, also across restarts.
	LastBatch uint64
}

// Dispatcher assigns calls to workers. Its queued calls are exactly the ready calls that a worker may take, or could take if
// the node, the queue or the tool were not paused.
type Dispatcher struct {
	cfg     Config
	lanes   lanes
	workers map[string]*Worker
	// loads has an entry for every known worker, and for every worker that held calls before a restart and has not contacted the
	// node since.
	loads   map[string]*load
	pollers pollers
	// cancelled holds the workers with undelivered cancellations.
	cancelled []string
	// order is the Queued.order of the newest call. running counts the leases.
	order   uint64
	running int
	// asked counts the leases of the calls that ask a provider.
	asked  map[string]int
	limits *limits
	// wake is the earliest time for which a Wake is requested; zero for none.
	wake time.Time
	// batch is the number of the newest batch.
	batch uint64
}

// New returns a dispatcher without calls and workers.
func New(cfg Config) *Dispatcher {
	lanes := newLanes(newLimits(cfg.Limits, cfg.Now))
	return &Dispatcher{
		cfg: cfg, lanes: lanes, workers: map[string]*Worker{}, loads: map[string]*load{},
		pollers: newPollers(), asked: map[string]int{}, limits: lanes.limits, batch: cfg.LastBatch,
	}
}

// Enqueue queues a ready call. priority is the priority of its task, created is when the task was created.
func (d *Dispatcher) Enqueue(c *Calls, step string, attempt int, l Lane, priority string, created time.Time) *Queued {
	d.Remove(c, step)
	d.order++
	t := &Queued{
		Ref: work.Ref{Task: c.Task, Step: step, Attempt: attempt}, lane: d.lanes.get(l),
		calls: c, order: d.order, priority: work.Urgency(priority), created: created.UnixNano(),
	}
	t.lane.push(t)
	d.lanes.markFresh(t.lane.family)
	c.Queued.put(t)
	return t
}

// Remove removes the call of a step from its queue, if it is queued.
func (d *Dispatcher) Remove(c *Calls, step string) {
	if t := c.Queued.Get(step); t != nil {
		d.remove(t)
	}
}

// remove removes a call from its queue, if it is queued.
func (d *Dispatcher) remove(t *Queued) {
	if t.place == 0 {
		return
	}
	t.calls.Queued.remove(t.Step)
	t.lane.remove(t)
	d.lanes.dropUnused(t.lane)
}

// RemoveAll removes all calls of a task from their queues.
func (d *Dispatcher) RemoveAll(c *Calls) {
	for t := range c.Queued.All() {
		d.remove(t)
	}
}

// Refresh offers the calls of all families to the waiting workers again at the next Dispatch.
func (d *Dispatcher) Refresh() { d.lanes.refresh(func(*family) bool { return true }) }

// dequeue removes up to p.Free calls from their queues and leases them to the worker.
func (d *Dispatcher) dequeue(p work.Poll) []*Offer {
	if d.cfg.Owner.Halted() {
		return nil
	}
	var offers []*Offer
	for len(offers) < p.Free {
		t := d.nextFor(p)
		if t == nil {
			break
		}
		if of := d.cfg.Owner.Lease(t, p.Worker); of != nil {
			offers = append(offers, of)
		}
		d.remove(t)
	}
	return offers
}

// nextFor returns the first queued call that the worker of a poll may take, or nil if there is none.
func (d *Dispatcher) nextFor(p work.Poll) *Queued {
	d.lanes.releaseDue()
	var best *Queued
	w := d.workers[p.Worker]
	for _, f := range d.lanes.families {
		if f.queued == 0 || !d.able(f, p, w) {
			continue
		}
		if t := d.firstOf(f); t != nil && (best == nil || prefer(t, best)) && w.admit(t) {
			best = t
		}
	}
	return best
}

// firstOf returns the first call of a family that no limit holds, or nil if there is none.
func (d *Dispatcher) firstOf(f *family) *Queued {
	for len(f.open) > 0 {
		if first := f.open[0]; !d.hold(first) {
			return first.calls[0]
		}
	}
	return nil
}

// able reports whether a worker with a poll may take calls of a family now. The limits of keys may hold some of its lanes (see firstOf).
func (d *Dispatcher) able(f *family, p work.Poll, w *Worker) bool {
	l := &f.lane
	served := slices.Contains(queuesOf(p), l.Queue)
	able := len(p.Tools) == 0 || slices.Contains(p.Tools, l.Tool)
	if l.Suspect && w != nil && w.suspects > 0 {
		return false
	}
	here := l.Root == "" || p.Root == "" || l.Root == p.Root
	return served && able && here && l.matches(p.Agent) && !d.Full(l.Provider) && !d.cfg.Owner.Paused(*l) && !d.limited(f)
}

// Take leases a queued call, and removes it from its queue.
func (d *Dispatcher) Take(q *Queued, l *Lease) {
	d.addLease(q.calls, l, q.lane)
	d.remove(q)
}

// AddLease adds a lease of a call that a worker holds already. It removes the call from its queue, if it is queued.
func (d *Dispatcher) AddLease(c *Calls, l *Lease, lane Lane) {
	d.Remove(c, l.Step)
	d.addLease(c, l, d.lanes.get(lane))
}

// addLease adds a lease of a call of a lane.
func (d *Dispatcher) addLease(c *Calls, l *Lease, w *keyLane) {
	l.LastHeartbeat = d.cfg.Now()
	l.Expires = l.LastHeartbeat.Add(l.TTL)
	l.lane = w
	w.leases++
	c.Leases.put(l)
	d.running++
	w.family.share.running++
	if provider := w.family.lane.Provider; provider != "" {
		d.asked[provider]++
	}
	d.limits.start(w)
	load := d.loadOf(l.Worker)
	load.leases++
	if strings.HasPrefix(l.Worker, events.AgentPrefix) {
		load.add(l.Ref)
	}
	if w.family.lane.Suspect {
		load.suspects++
	}
}

// EndLease removes the lease of a step, if there is one.
func (d *Dispatcher) EndLease(c *Calls, step string) {
	l := c.Leases.Get(step)
	if l == nil {
		return
	}
	c.Leases.remove(step)
	f := l.lane.family
	load := d.loadOf(l.Worker)
	load.leases--
	delete(load.calls, l.Ref)
	if f.lane.Suspect {
		load.suspects--
		d.lanes.refresh(func(f *family) bool { return f.lane.Suspect })
	}
	if w := d.workers[l.Worker]; w != nil && w.reserving {
		w.reserving = false
		d.Refresh()
	}
	d.pruneLoad(l.Worker)
	d.releaseProvider(f.lane.Provider)
	d.lanes.endLimited(l.lane)
	d.lanes.endShare(f.share)
	d.running = max(d.running-1, 0)
	l.lane.leases--
	d.lanes.dropUnused(l.lane)
}

// Running returns the number of leased calls.
func (d *Dispatcher) Running() int { return d.running }

// Waiting returns the number of workers that wait for calls.
func (d *Dispatcher) Waiting() int { return len(d.pollers.byWorker) }

// QueuedIn returns the number of calls that wait in a queue.
func (d *Dispatcher) QueuedIn(queue string) (n int) { return d.Lengths()[queue] }

// Lengths returns the number of calls that wait in each queue.
func (d *Dispatcher) Lengths() map[string]int {
	lengths := map[string]int{}
	for _, f := range d.lanes.families {
		if f.queued > 0 {
			lengths[f.lane.Queue] += f.queued
		}
	}
	return lengths
}

// Wait describes the calls that wait in a queue.
type Wait struct {
	Calls int
	// Since is since when the call waits that has waited longest of those that are next in a lane.
	Since time.Time
}

// Waits returns the calls that wait in each queue.
func (d *Dispatcher) Waits() map[string]Wait {
	waits := map[string]Wait{}
	for _, f := range d.lanes.families {
		for lane := range f.lanes() {
			w := waits[f.lane.Queue]
			if next := lane.calls[0].Since; w.Calls == 0 || next.Before(w.Since) {
				w.Since = next
			}
			w.Calls += len(lane.calls)
			waits[f.lane.Queue] = w
		}
	}
	return waits
}

// Unserved yields the tasks of calls that have waited for at least a time although no worker may take them: no online worker serves
// their queue, or none of those their root, or none of those has their tool. It leaves out calls for agents, and what is paused. A task may come more than once.
func (d *Dispatcher) Unserved(atLeast time.Duration) iter.Seq[events.TaskID] {
	before := d.cfg.Now().Add(-atLeast)
	return func(yield func(events.TaskID) bool) {
		for l, f := range d.lanes.families {
			if f.queued == 0 || l.Agents != "" || d.Missing(l) == NothingMissing || d.cfg.Owner.Paused(l) {
				continue
			}
			for w := range f.lanes() {
				for _, t := range w.calls {
					if !t.Since.After(before) && !yield(t.Task) {
						return
					}
				}
			}
		}
	}
}

// Leftovers returns the sizes of the internal tables that must be empty when no call is queued or leased. A size above 0 is then
// a leak.
func (d *Dispatcher) Leftovers() map[string]int {
	return map[string]int{
		"lanes": len(d.lanes.families), "loads": len(d.loads) - len(d.workers), "running": d.running, "asked": len(d.asked), "limited": d.limits.waiting(), "shares": len(d.lanes.shares),
	}
}
