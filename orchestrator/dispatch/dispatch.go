// Package dispatch brings ready calls and workers together, in memory: calls wait in lanes by priority and age, workers wait with
// long polls, and a call that a worker has is a lease until the worker is silent for too long.
//
// A Dispatcher has no lock and no goroutine. Its owner calls it with the owner's lock held, and is called back (Owner) under the same
// lock; nothing in it blocks, because a Poller has room for the one delivery that it gets.
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

// Owner is the owner of the tasks whose calls are dispatched.
type Owner interface {
	// Halted reports whether no calls are handed out now, Paused whether those of a lane are not.
	Halted() bool
	Paused(l Lane) bool
	// Lease gives a call that has left its queue to a worker (Dispatcher.AddLease) and describes it; false when a decision that is on its
	// way to the log has overtaken it.
	Lease(q *Queued, worker string) (Offer, bool)
	// Requeue queues a call again that its worker has never seen.
	Requeue(worker string, call work.Ref)
}

// Config says what a dispatcher works with. All fields are required.
type Config struct {
	Owner Owner
	// Now is the time.
	Now func() time.Time
	// OfflineAfter is how long a worker may not be heard of until no call is expected to reach it.
	OfflineAfter time.Duration
	// LastBatch is the number before that of the first batch: no number may be used twice, also not by an earlier process.
	LastBatch uint64
}

// Dispatcher hands calls to workers. Its queued calls are exactly the ready calls that a worker may take, but for the pauses of
// the node, of queues and of tools.
type Dispatcher struct {
	cfg     Config
	lanes   map[Lane]*callHeap
	workers map[string]*Worker
	// loads are those of workers that are known, and of those that had calls before a restart and have not been heard of yet.
	loads   map[string]*load
	pollers pollers
	// fresh holds the lanes with calls that no poller was offered yet, told the workers with cancellations that
	// they have not heard of.
	fresh     map[Lane]bool
	cancelled []string
	order     uint64
	running   int
	shares    shares
	// batch is the number of the last batch.
	batch uint64
}

// New returns a dispatcher without calls and workers.
func New(cfg Config) *Dispatcher {
	return &Dispatcher{
		cfg: cfg, lanes: map[Lane]*callHeap{}, workers: map[string]*Worker{}, loads: map[string]*load{}, fresh: map[Lane]bool{},
		pollers: newPollers(), shares: newShares(), batch: cfg.LastBatch,
	}
}

// Enqueue queues a ready call. Priority is that of its task, age when the task was made.
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

// Remove takes the call of a step out of its queue, if it is there.
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

// RemoveAll takes all calls of a task out of their queues.
func (d *Dispatcher) RemoveAll(c *Calls) {
	for step := range c.Queued {
		d.Remove(c, step)
	}
}

// Refresh lets the calls of all lanes be offered again to those who wait.
func (d *Dispatcher) Refresh() { d.refresh(func(Lane) bool { return true }) }

func (d *Dispatcher) refresh(which func(Lane) bool) {
	for l := range d.lanes {
		if which(l) {
			d.fresh[l] = true
		}
	}
}

// dequeue hands out up to p.Free calls.
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

// best returns the best queued call that a worker can take, nil when there is none.
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

// open reports whether calls of the lane may go to the worker now.
func (d *Dispatcher) open(l Lane, p work.Poll) bool {
	served := slices.Contains(queuesOf(p), l.Queue)
	able := len(p.Tools) == 0 || slices.Contains(p.Tools, l.Tool)
	if w := d.workers[p.Worker]; l.Suspect && w != nil && w.suspects > 0 {
		return false
	}
	return served && able && l.matches(p.Agent) && !d.cfg.Owner.Paused(l)
}

// AddLease puts a call into the hands of its worker for one lease; nobody else can have it meanwhile.
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

// EndLease ends the lease of a step whose call is over, if it has one.
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

// Running is how many calls workers have.
func (d *Dispatcher) Running() int { return d.running }

// Waiting is how many workers wait for calls.
func (d *Dispatcher) Waiting() int { return len(d.pollers.byWorker) }

// QueuedIn counts the calls that wait in a queue.
func (d *Dispatcher) QueuedIn(queue string) (n int) { return d.Lengths()[queue] }

// Lengths counts the calls that wait, by queue.
func (d *Dispatcher) Lengths() map[string]int {
	lengths := map[string]int{}
	for l, q := range d.lanes {
		lengths[l.Queue] += q.Len()
	}
	return lengths
}

// Leftovers returns the sizes of what is empty when no call waits or runs.
func (d *Dispatcher) Leftovers() map[string]int {
	return map[string]int{"lanes": len(d.lanes), "loads": len(d.loads) - len(d.workers), "running": d.running}
}
