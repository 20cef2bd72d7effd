package dispatch

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/work"
)

// Worker is a worker, or an agent, that has contacted the node.
type Worker struct {
	*load

	Queues []string
	// Root is the root of its polls, Tools are their tools; empty means all.
	Root  string
	Tools []string
	// Agent describes the agent, nil for a worker.
	Agent *work.Agent
	// Seen is when the worker last contacted the node.
	Seen time.Time

	// cancel holds the cancellations for the next delivery.
	cancel []work.Ref
	// slots is how many calls the worker can hold; 0 if that is not known. reserving is set if a call was not given to the worker
	// because of a reserved slot.
	slots     int
	reserving bool
	// sentBatch is the number of the last batch with calls, sentCalls are its calls.
	sentBatch uint64
	sentCalls []work.Ref
}

// Running returns how many calls the worker holds.
func (w *Worker) Running() int { return w.leases }

// load counts the calls that a worker holds.
type load struct {
	// leases counts all calls. suspects counts the suspect calls: those during which earlier workers were lost.
	leases, suspects int
	// calls are the calls of an agent; nil for a worker.
	calls map[work.Ref]bool
}

// add records a call of an agent.
func (l *load) add(call work.Ref) {
	if l.calls == nil {
		l.calls = map[work.Ref]bool{}
	}
	l.calls[call] = true
}

// Touch records that a worker has contacted the node, and the queues that it serves. It registers a new worker.
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

// loadOf returns the load of a worker, and adds it if necessary.
func (d *Dispatcher) loadOf(worker string) *load {
	l := d.loads[worker]
	if l == nil {
		l = &load{}
		d.loads[worker] = l
	}
	return l
}

// Forget removes a worker. The dispatcher keeps the load of the worker while the worker holds calls.
func (d *Dispatcher) Forget(worker string) {
	delete(d.workers, worker)
	d.pruneLoad(worker)
}

// ForgetIdle removes the workers that hold no calls and have been silent for longer than after.
func (d *Dispatcher) ForgetIdle(now time.Time, after time.Duration) {
	for name, w := range d.workers {
		if now.Sub(w.Seen) > after && w.leases == 0 {
			d.Forget(name)
		}
	}
}

// pruneLoad removes the load of a worker that is not known and holds no calls.
func (d *Dispatcher) pruneLoad(worker string) {
	if d.workers[worker] == nil && d.loads[worker] != nil && d.loads[worker].leases == 0 {
		delete(d.loads, worker)
	}
}

// Workers yields the known workers by name.
func (d *Dispatcher) Workers() iter.Seq2[string, *Worker] { return maps.All(d.workers) }

// Worker returns a known worker, or nil.
func (d *Dispatcher) Worker(name string) *Worker { return d.workers[name] }

// CallsByAgent yields the agents that hold calls, with those calls.
func (d *Dispatcher) CallsByAgent() iter.Seq2[string, []work.Ref] {
	return func(yield func(string, []work.Ref) bool) {
		for worker, l := range d.loads {
			if len(l.calls) > 0 && !yield(worker, slices.Collect(maps.Keys(l.calls))) {
				return
			}
		}
	}
}

// CallsOf returns the calls that an agent holds, in no particular order.
func (d *Dispatcher) CallsOf(agent string) []work.Ref {
	if d.loads[agent] == nil {
		return nil
	}
	return slices.Collect(maps.Keys(d.loads[agent].calls))
}

// Offline reports whether a worker has been silent for at least Config.OfflineAfter.
func (d *Dispatcher) Offline(w *Worker) bool { return d.cfg.Now().Sub(w.Seen) >= d.cfg.OfflineAfter }

// Served reports whether an online worker serves a queue for tasks with a root, or, if root is empty, for any task.
func (d *Dispatcher) Served(queue, root string) bool {
	return d.anyWorker(func(w *Worker) bool { return w.serves(queue, root) })
}

// Lack is what the online workers lack for the calls of a lane.
type Lack int

// The lacks, in the order in which they are looked for: no worker serves the queue, none of those works in the root, none of those
// has the tool.
const (
	NothingMissing Lack = iota
	MissingQueue
	MissingRoot
	MissingTool
)

// Missing returns what the online workers lack for the calls of a lane. Calls for agents are not looked at.
func (d *Dispatcher) Missing(l Lane) Lack {
	switch {
	case !d.Served(l.Queue, ""):
		return MissingQueue
	case !d.Served(l.Queue, l.Root):
		return MissingRoot
	case !d.anyWorker(func(w *Worker) bool {
		return w.serves(l.Queue, l.Root) && (len(w.Tools) == 0 || slices.Contains(w.Tools, l.Tool))
	}):
		return MissingTool
	default:
		return NothingMissing
	}
}

// serves reports whether a worker serves a queue for tasks with a root, or, if root is empty, for any task.
func (w *Worker) serves(queue, root string) bool {
	return slices.Contains(w.Queues, queue) && (root == "" || w.Root == "" || w.Root == root)
}

// anyWorker reports whether matches accepts an online worker.
func (d *Dispatcher) anyWorker(matches func(*Worker) bool) bool {
	for _, w := range d.workers {
		if matches(w) && !d.Offline(w) {
			return true
		}
	}
	return false
}

// AgentOnline reports whether an agent that may take a call is online.
func (d *Dispatcher) AgentOnline(a *events.Agents, requester string) bool {
	return d.anyAgent(func(p *work.Agent) bool { return Matches(p, a, requester) })
}

// OnlineForOthers reports whether matching agents are online, but all of them work for other identities.
func (d *Dispatcher) OnlineForOthers(a *events.Agents, requester string) bool {
	return !d.AgentOnline(a, requester) && d.anyAgent(func(p *work.Agent) bool { return Matches(p, a, p.For) })
}

// anyAgent reports whether matches accepts an online agent.
func (d *Dispatcher) anyAgent(matches func(*work.Agent) bool) bool {
	for _, w := range d.workers {
		if w.Agent != nil && matches(w.Agent) && !d.Offline(w) {
			return true
		}
	}
	return false
}
