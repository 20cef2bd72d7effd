// Package dispatch assigns ready calls to workers, in memory. Calls wait in lanes by priority and age. Workers wait with long
// polls. A call that a worker holds is a lease, which expires if the worker is silent for too long.
//
// A Dispatcher has no lock and no goroutine. The caller must hold the lock of the owner, and the dispatcher calls the owner
// (Owner) under the same lock. Nothing in it blocks, because the channel of a Poller has room for its only delivery.
package dispatch

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Owner owns the tasks whose calls are dispatched.
type Owner interface {
	// Halted reports whether all dispatch is paused, Paused whether that of a lane is.
	Halted() bool
	Paused(l Lane) bool
	// Lease leases a call that was dequeued to a worker (Dispatcher.AddLease), and returns its offer. It returns false if the
	// call changed because of a decision that is being written to the log.
	Lease(q *Queued, worker string) (Offer, bool)
	// Requeue queues a call again that its worker never received.
	Requeue(worker string, call work.Ref)
}

// Config configures a Dispatcher. All fields are required.
type Config struct {
	Owner Owner
	// Now returns the current time.
	Now func() time.Time
	// OfflineAfter is the silence after which a worker counts as offline.
	OfflineAfter time.Duration
	// LastBatch is the number before the first batch. Batch numbers must be unique, also across restarts.
	LastBatch uint64
}

// Dispatcher assigns calls to workers. Its queued calls are exactly the ready calls that a worker may take, apart from pauses
// of the node, of queues and of tools.
type Dispatcher struct {
	cfg     Config
	lanes   map[Lane]*callHeap
	workers map[string]*Worker
	// loads has an entry for every known worker, and for every worker that held calls before a restart and has not been heard
	// of yet.
	loads   map[string]*load
	pollers pollers
	// fresh holds the lanes with calls that were not offered to any poller yet. cancelled holds the workers with undelivered
	// cancellations.
	fresh     map[Lane]bool
	cancelled []string
	order     uint64
	running   int
	shares    shares
	// batch is the number of the newest batch.
	batch uint64
}

// New returns a dispatcher without calls and workers.
func New(cfg Config) *Dispatcher {
	return &Dispatcher{
		cfg: cfg, lanes: map[Lane]*callHeap{}, workers: map[string]*Worker{}, loads: map[string]*load{}, fresh: map[Lane]bool{},
		pollers: newPollers(), shares: newShares(), batch: cfg.LastBatch,
	}
}

// Enqueue queues a ready call. priority is that of its task, age is when the task was created.
func (d *Dispatcher) Enqueue(c *Calls, step string, attempt int, l Lane, priority string, age time.Time) *Queued {
	d.Remove(c, step)
	d.order++
	t := &Queued{
		Ref: work.Ref{Task: c.Task, Step: step, Attempt: attempt}, Lane: l,
		calls: c, order: d.order, priority: Urgency(priority), age: age,
	}
	q := d.lanes[l]
	if q == nil {
		q = &callHeap{}
		d.lanes[l] = q
	}
	heap.Push(q, t)
	d.fresh[l] = true
	c.Queued[step] = t
	return t
}

// Remove removes the call of a step from its queue, if it is queued.
func (d *Dispatcher) Remove(c *Calls, step string) {
	t := c.Queued[step]
	if t == nil {
		return
	}
	delete(c.Queued, step)
	q := d.lanes[t.Lane]
	heap.Remove(q, t.index)
	if q.Len() == 0 {
		delete(d.lanes, t.Lane)
	}
}

// RemoveAll removes all calls of a task from their queues.
func (d *Dispatcher) RemoveAll(c *Calls) {
	for step := range c.Queued {
		d.Remove(c, step)
	}
}

// Refresh offers the calls of all lanes to the waiting workers again at the next Dispatch.
func (d *Dispatcher) Refresh() { d.refresh(func(Lane) bool { return true }) }

func (d *Dispatcher) refresh(which func(Lane) bool) {
	for l := range d.lanes {
		if which(l) {
			d.fresh[l] = true
		}
	}
}

// dequeue removes up to p.Free calls from their queues and leases them to the worker.
func (d *Dispatcher) dequeue(p work.Poll) []Offer {
	if d.cfg.Owner.Halted() {
		return nil
	}
	var offers []Offer
	for len(offers) < p.Free {
		t := d.best(p)
		if t == nil {
			break
		}
		d.Remove(t.calls, t.Step)
		if call, ok := d.cfg.Owner.Lease(t, p.Worker); ok {
			offers = append(offers, call)
		}
	}
	return offers
}

// best returns the first queued call that a worker can take, nil if there is none.
func (d *Dispatcher) best(p work.Poll) *Queued {
	var best *Queued
	w := d.workers[p.Worker]
	for l, q := range d.lanes {
		if t := (*q)[0]; d.open(l, p) && (best == nil || d.shares.prefer(t, best)) && d.shares.admit(t, w) {
			best = t
		}
	}
	return best
}

// open reports whether the worker may take calls of the lane now.
func (d *Dispatcher) open(l Lane, p work.Poll) bool {
	served := slices.Contains(queuesOf(p), l.Queue)
	able := len(p.Tools) == 0 || slices.Contains(p.Tools, l.Tool)
	if w := d.workers[p.Worker]; l.Suspect && w != nil && w.suspects > 0 {
		return false
	}
	return served && able && l.matches(p.Agent) && !d.cfg.Owner.Paused(l)
}

// AddLease leases a call to its worker. No other worker can hold it meanwhile.
func (d *Dispatcher) AddLease(c *Calls, l *Lease) {
	d.Remove(c, l.Step)
	l.LastHeartbeat = d.cfg.Now()
	l.Expires = l.LastHeartbeat.Add(l.TTL)
	c.Leases[l.Step] = l
	d.running++
	d.shares.running[l.Share]++
	load := d.loadOf(l.Worker)
	load.leases++
	if strings.HasPrefix(l.Worker, events.AgentPrefix) {
		load.add(l.Ref)
	}
	if l.Suspect {
		load.suspects++
	}
}

// EndLease ends the lease of a step whose call has ended, if it has one.
func (d *Dispatcher) EndLease(c *Calls, step string) {
	l := c.Leases[step]
	if l == nil {
		return
	}
	delete(c.Leases, step)
	load := d.loadOf(l.Worker)
	load.leases--
	delete(load.calls, l.Ref)
	if l.Suspect {
		load.suspects--
		d.refresh(func(l Lane) bool { return l.Suspect })
	}
	if w := d.workers[l.Worker]; w != nil && w.reserving {
		w.reserving = false
		d.Refresh()
	}
	d.pruneLoad(l.Worker)
	maps.Copy(d.fresh, d.shares.release(l.Share))
	d.running = max(d.running-1, 0)
}

// Running returns how many calls are leased.
func (d *Dispatcher) Running() int { return d.running }

// Waiting returns how many workers wait for calls.
func (d *Dispatcher) Waiting() int { return len(d.pollers.byWorker) }

// QueuedIn returns how many calls wait in a queue.
func (d *Dispatcher) QueuedIn(queue string) (n int) { return d.Lengths()[queue] }

// Lengths returns how many calls wait, by queue.
func (d *Dispatcher) Lengths() map[string]int {
	lengths := map[string]int{}
	for l, q := range d.lanes {
		lengths[l.Queue] += q.Len()
	}
	return lengths
}

// Leftovers returns the sizes of the tables that are empty when no call is queued or leased.
func (d *Dispatcher) Leftovers() map[string]int {
	return map[string]int{"lanes": len(d.lanes), "loads": len(d.loads) - len(d.workers), "running": d.running}
}
