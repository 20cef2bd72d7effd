package orchestrator

import (
	"container/heap"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const defaultQueue = "default"

// ticket is a ready call in a queue. It is only a hint: what counts is the step when it is handed out.
type ticket struct {
	id       events.TaskID
	step     string
	attempt  int
	tool     string
	priority int
	age      time.Time
	order    uint64
}

// tickets orders by priority, then by the age of the task, then by arrival.
type tickets []ticket

func (q tickets) Len() int      { return len(q) }
func (q tickets) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q tickets) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	if c := a.age.Compare(b.age); c != 0 {
		return c < 0
	}
	return a.order < b.order
}

// Push and Pop are for container/heap.
func (q *tickets) Push(x any) {
	if t, ok := x.(ticket); ok {
		*q = append(*q, t)
	}
}

// Pop removes the last element.
func (q *tickets) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// poller is a worker that waits for work.
type poller struct {
	poll work.Poll
	out  chan delivery
}

// workerInfo is what the node knows of a worker.
type workerInfo struct {
	queues []string
	seen   time.Time
	cancel []work.Ref
	leases int
}

// matcher brings ready calls and polling workers together, in memory.
type matcher struct {
	queues  map[string]*tickets
	pollers []*poller
	workers map[string]*workerInfo
	order   uint64
	running int
	// parked holds the calls of paused tools.
	parked []ticket
}

func newMatcher() matcher {
	return matcher{queues: map[string]*tickets{}, workers: map[string]*workerInfo{}}
}

func priorityOf(name string) int {
	switch name {
	case "critical":
		return 0
	case "high":
		return 1
	case "low":
		return 3
	default:
		return 2
	}
}

// push queues the ready call of a step.
func (m *matcher) push(e *entry, s *statemachine.Step) {
	name := queueName(s.Queue)
	q := m.queues[name]
	if q == nil {
		q = &tickets{}
		m.queues[name] = q
	}
	m.order++
	heap.Push(q, ticket{
		id: e.id, step: s.Key, attempt: s.Attempt, tool: s.Tool, order: m.order,
		priority: priorityOf(e.task.Submitted.Priority), age: e.task.CreatedAt,
	})
}

func queueName(name string) string {
	if name == "" {
		return defaultQueue
	}
	return name
}

func (m *matcher) worker(name string, queues []string, now time.Time) *workerInfo {
	w := m.workers[name]
	if w == nil {
		w = &workerInfo{}
		m.workers[name] = w
	}
	w.seen = now
	if len(queues) == 0 {
		queues = []string{defaultQueue}
	}
	w.queues = queues
	return w
}

// next removes the best ticket of some queues that a worker can take, or returns false.
func (o *Orchestrator) next(p work.Poll) (ticket, bool) {
	queues := p.Queues
	if len(queues) == 0 {
		queues = []string{defaultQueue}
	}
	var aside []ticket
	var from *tickets
	defer func() {
		for _, t := range aside {
			heap.Push(from, t)
		}
	}()
	for {
		best := o.best(queues)
		if best == nil {
			return ticket{}, false
		}
		if from != best && len(aside) > 0 {
			for _, t := range aside {
				heap.Push(from, t)
			}
			aside = nil
		}
		from = best
		t, _ := heap.Pop(best).(ticket)
		switch {
		case o.held(holdTool, t.tool):
			o.park(t)
		case len(p.Tools) > 0 && !slices.Contains(p.Tools, t.tool):
			aside = append(aside, t)
		default:
			return t, true
		}
	}
}

// best returns the queue with the best first ticket that is not held.
func (o *Orchestrator) best(queues []string) *tickets {
	var best *tickets
	for _, name := range queues {
		q := o.match.queues[name]
		if q == nil || q.Len() == 0 || o.held(holdQueue, name) {
			continue
		}
		if best == nil || less(q, best) {
			best = q
		}
	}
	return best
}

func less(a, b *tickets) bool {
	pair := tickets{(*a)[0], (*b)[0]}
	return pair.Less(0, 1)
}

// lease is a call in the hands of a worker.
type lease struct {
	step    string
	attempt int
	worker  string
	tool    string
	// called is set when the log says that the call has begun.
	called  bool
	expires time.Time
}

// take hands out up to p.Free calls. The lock is held.
func (o *Orchestrator) take(p work.Poll) []offer {
	if o.held(holdNode, "") {
		return nil
	}
	var offers []offer
	for len(offers) < p.Free {
		t, ok := o.next(p)
		if !ok {
			break
		}
		if call, ok := o.lease(t, p.Worker); ok {
			offers = append(offers, call)
		}
	}
	return offers
}

// offer is a call whose large arguments still lie in the blob store.
type offer struct {
	call        work.Call
	args        events.Value
	checkpoints []events.Checkpointed
}

// lease checks that a ticket still stands and gives the call to a worker.
func (o *Orchestrator) lease(t ticket, worker string) (offer, bool) {
	e := o.tasks[t.id]
	if e == nil || e.task == nil || e.task.Paused {
		return offer{}, false
	}
	s := e.task.Steps[t.step]
	if s == nil || s.State != statemachine.StepReady || s.Attempt != t.attempt || e.leases[t.step] != nil {
		return offer{}, false
	}
	o.grant(e, &lease{step: t.step, attempt: t.attempt, worker: worker, tool: t.tool})
	return o.offer(e, s), true
}

// grant puts a call into the hands of a worker for one lease time. The lock is held.
func (o *Orchestrator) grant(e *entry, l *lease) {
	l.expires = o.now().Add(o.cfg.Lease)
	e.leases[l.step] = l
	o.match.running++
	if w := o.match.workers[l.worker]; w != nil {
		w.leases++
	}
}

func (o *Orchestrator) offer(e *entry, s *statemachine.Step) offer {
	call := work.Call{
		Ref:  work.Ref{Task: e.id, Step: s.Key, Attempt: s.Attempt},
		Tool: s.Tool, Effect: s.Effect, State: gateState(e.task, s), Timeout: s.Timeout,
		Lease: o.cfg.Lease, Name: e.task.Submitted.Name,
	}
	of := offer{call: call, args: s.Args}
	tool, ok := o.cfg.Catalogue.Get(s.Tool)
	if !ok {
		return of
	}
	spec := tool.Spec()
	if spec.NeedsReads {
		of.call.Reads = cloneMap(e.task.Reads)
	}
	if spec.NeedsCheckpoints {
		of.checkpoints = slices.Clone(e.task.Checkpoints)
	}
	return of
}

func cloneMap(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// gateState is the state in which the gate sees a call: a step of the plan starts the task, a single
// call finds it as it is.
func gateState(t *statemachine.Task, s *statemachine.Step) string {
	if t.State == statemachine.NeedsAction && s.Purpose != purposeCall {
		return string(statemachine.InProgress)
	}
	return string(t.State)
}

// dispatch serves waiting pollers. The lock is held.
func (o *Orchestrator) dispatch() {
	if len(o.match.pollers) == 0 || o.held(holdNode, "") {
		return
	}
	waiting := o.match.pollers[:0]
	for _, p := range o.match.pollers {
		offers := o.take(p.poll)
		cancel := o.takeCancels(p.poll.Worker)
		if len(offers) == 0 && len(cancel) == 0 {
			waiting = append(waiting, p)
			continue
		}
		p.out <- delivery{offers, cancel}
	}
	clear(o.match.pollers[len(waiting):])
	o.match.pollers = waiting
}

// delivery is what a poll brings, before large values are fetched.
type delivery struct {
	offers []offer
	cancel []work.Ref
}

func (o *Orchestrator) takeCancels(worker string) []work.Ref {
	w := o.match.workers[worker]
	if w == nil {
		return nil
	}
	refs := w.cancel
	w.cancel = nil
	return refs
}

// drop ends the lease of a step whose call is over. The lock is held.
func (o *Orchestrator) drop(e *entry, step string) {
	l := e.leases[step]
	delete(e.progress, step)
	if l == nil {
		return
	}
	delete(e.leases, step)
	if w := o.match.workers[l.worker]; w != nil && w.leases > 0 {
		w.leases--
	}
	o.match.running = max(o.match.running-1, 0)
}

// revoke ends the lease of a step and tells its worker to stop the call. The lock is held.
func (o *Orchestrator) revoke(e *entry, step string) {
	l := e.leases[step]
	if l == nil {
		return
	}
	if w := o.match.workers[l.worker]; w != nil {
		w.cancel = append(w.cancel, work.Ref{Task: e.id, Step: step, Attempt: l.attempt})
	}
	o.drop(e, step)
}
