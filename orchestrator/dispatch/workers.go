package dispatch

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Worker is what is known of a worker.
type Worker struct {
	*load

	Queues []string
	// Agent is who it is, nil for a worker.
	Agent *work.Agent
	// Seen is when it was last heard of.
	Seen time.Time

	cancel []work.Ref
	// slots is how many calls it can have, 0 when it has not said so. refused is set when one of them was kept from a call.
	slots     int
	reserving bool
	// sentBatch is the number of the last batch with calls, given are those calls.
	sentBatch uint64
	sentCalls []work.Ref
}

// Running is how many calls the worker has.
func (w *Worker) Running() int { return w.leases }

// load counts the calls that a worker has.
type load struct {
	// leases are all of them, suspects those that have lost workers.
	leases, suspects int
	// calls are those of an agent; nil for a worker.
	calls map[work.Ref]bool
}

// add notes a call of an agent.
func (l *load) add(call work.Ref) {
	if l.calls == nil {
		l.calls = map[work.Ref]bool{}
	}
	l.calls[call] = true
}

// Touch notes that a worker is there, and which queues it serves.
func (d *Dispatcher) Touch(name string, queues []string, now time.Time) *Worker {
	w := d.workers[name]
	if w == nil {
		w = &Worker{load: d.loadOf(name)}
		d.workers[name] = w
	}
	w.Seen = now
	if len(queues) == 0 {
		queues = []string{work.DefaultQueue}
	}
	w.Queues = queues
	return w
}

// loadOf is the load of a worker, be it known or not.
func (d *Dispatcher) loadOf(worker string) *load {
	if d.loads[worker] == nil {
		d.loads[worker] = &load{}
	}
	return d.loads[worker]
}

// Forget drops a worker. What calls it has stay counted.
func (d *Dispatcher) Forget(worker string) {
	delete(d.workers, worker)
	d.pruneLoad(worker)
}

// ForgetIdle drops the workers without calls that were not heard of for longer than a time.
func (d *Dispatcher) ForgetIdle(now time.Time, after time.Duration) {
	for name, w := range d.workers {
		if now.Sub(w.Seen) > after && w.leases == 0 {
			d.Forget(name)
		}
	}
}

// pruneLoad drops the load of a worker that is not known and has no calls.
func (d *Dispatcher) pruneLoad(worker string) {
	if d.workers[worker] == nil && d.loads[worker] != nil && d.loads[worker].leases == 0 {
		delete(d.loads, worker)
	}
}

// Workers yields the known workers by name.
func (d *Dispatcher) Workers() iter.Seq2[string, *Worker] { return maps.All(d.workers) }

// Worker returns a known worker, nil for any other.
func (d *Dispatcher) Worker(name string) *Worker { return d.workers[name] }

// CallsByAgent yields the agents that have calls, with these.
func (d *Dispatcher) CallsByAgent() iter.Seq2[string, []work.Ref] {
	return func(yield func(string, []work.Ref) bool) {
		for worker, l := range d.loads {
			if len(l.calls) > 0 && !yield(worker, slices.Collect(maps.Keys(l.calls))) {
				return
			}
		}
	}
}

// CallsOf returns the calls that an agent has, in no particular order.
func (d *Dispatcher) CallsOf(agent string) []work.Ref {
	if d.loads[agent] == nil {
		return nil
	}
	return slices.Collect(maps.Keys(d.loads[agent].calls))
}

// Offline reports whether a worker was not heard of for longer than one that lives ever takes.
func (d *Dispatcher) Offline(w *Worker) bool { return d.cfg.Now().Sub(w.Seen) >= d.cfg.OfflineAfter }

// Served reports whether a worker that was heard of lately serves a queue.
func (d *Dispatcher) Served(queue string) bool {
	for _, w := range d.workers {
		if slices.Contains(w.Queues, queue) && !d.Offline(w) {
			return true
		}
	}
	return false
}

// AgentOnline reports whether an agent that may take a call was heard of lately.
func (d *Dispatcher) AgentOnline(a *events.Agents, requester string) bool {
	return d.anyAgent(func(p *work.Agent) bool { return Matches(p, a, requester) })
}

// OnlineForOthers reports whether agents that could take a call were heard of lately, and none that may.
func (d *Dispatcher) OnlineForOthers(a *events.Agents, requester string) bool {
	return !d.AgentOnline(a, requester) && d.anyAgent(func(p *work.Agent) bool { return Matches(p, a, p.For) })
}

func (d *Dispatcher) anyAgent(is func(*work.Agent) bool) bool {
	for _, w := range d.workers {
		if w.Agent != nil && is(w.Agent) && !d.Offline(w) {
			return true
		}
	}
	return false
}
