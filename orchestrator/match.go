package orchestrator

import (
	"cmp"
	"container/heap"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// queuedCall is a ready call that no worker has.
type queuedCall struct {
	entry    *entry
	step     string
	attempt  int
	lane     lane
	priority int
	age      time.Time
	order    uint64
	// since is when it was queued, within how long it may be there; 0 for ever.
	since  time.Time
	within time.Duration
	// index is the place in the heap.
	index int
}

// callHeap orders by priority, then by the age of the task, then by arrival.
type callHeap []*queuedCall

func (q callHeap) Len() int           { return len(q) }
func (q callHeap) Less(i, j int) bool { return q[i].before(q[j]) }

func (q callHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (t *queuedCall) before(u *queuedCall) bool {
	if t.priority != u.priority {
		return t.priority < u.priority
	}
	if c := t.age.Compare(u.age); c != 0 {
		return c < 0
	}
	return t.order < u.order
}

// Push and Pop are for container/heap.
func (q *callHeap) Push(x any) {
	if t, ok := x.(*queuedCall); ok {
		t.index = len(*q)
		*q = append(*q, t)
	}
}

// Pop removes the last element.
func (q *callHeap) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}

// matcher brings ready calls and polling workers together, in memory. Its queued calls are exactly the ready
// calls that a worker may take, but for the pauses of the node, of queues and of tools.
type matcher struct {
	lanes   map[lane]*callHeap
	workers map[string]*workerInfo
	// loads are those of workers that are known, and of those that had calls before a restart and have not been heard of yet.
	loads   map[string]*workload
	pollers pollers
	// fresh holds the lanes with calls that no poller was offered yet, told the workers with cancellations that
	// they have not heard of.
	fresh   map[lane]bool
	told    []string
	order   uint64
	running int
	shares  shares
	// batch is the number of the last batch. It begins with the time, so that no number is used twice.
	batch uint64
}

func newMatcher() matcher {
	return matcher{lanes: map[lane]*callHeap{}, workers: map[string]*workerInfo{}, loads: map[string]*workload{}, fresh: map[lane]bool{}, pollers: newPollers(), shares: newShares()}
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
func (m *matcher) push(e *entry, s *statemachine.Step) *queuedCall {
	m.remove(e, s.Key)
	m.order++
	t := &queuedCall{
		entry: e, step: s.Key, attempt: s.Attempt, lane: laneOf(e.task, s), order: m.order,
		priority: priorityOf(e.task.Submitted.Priority), age: e.task.CreatedAt,
	}
	q := m.lanes[t.lane]
	if q == nil {
		q = &callHeap{}
		m.lanes[t.lane] = q
	}
	heap.Push(q, t)
	m.fresh[t.lane] = true
	e.queued[s.Key] = t
	return t
}

// remove takes the call of a step out of its queue, if it is there.
func (m *matcher) remove(e *entry, step string) {
	t := e.queued[step]
	if t == nil {
		return
	}
	delete(e.queued, step)
	q := m.lanes[t.lane]
	heap.Remove(q, t.index)
	if q.Len() == 0 {
		delete(m.lanes, t.lane)
	}
}

// removeAll takes all calls of a task out of their queues.
func (m *matcher) removeAll(e *entry) {
	for step := range e.queued {
		m.remove(e, step)
	}
}

func (m *matcher) worker(name string, queues []string, now time.Time) *workerInfo {
	w := m.workers[name]
	if w == nil {
		w = &workerInfo{workload: m.load(name)}
		m.workers[name] = w
	}
	w.seen = now
	if len(queues) == 0 {
		queues = []string{work.DefaultQueue}
	}
	w.queues = queues
	return w
}

// next returns the best queued call that a worker can take, nil when there is none.
func (o *Orchestrator) next(p work.Poll) *queuedCall {
	var best *queuedCall
	w := o.match.workers[p.Worker]
	for lane, q := range o.match.lanes {
		if t := (*q)[0]; o.open(lane, p) && (best == nil || o.match.shares.prefer(t, best)) && o.match.shares.admit(t, w) {
			best = t
		}
	}
	return best
}

// open reports whether calls of the lane may go to the worker now.
func (o *Orchestrator) open(l lane, p work.Poll) bool {
	served := slices.Contains(queuesOf(p), l.queue)
	able := len(p.Tools) == 0 || slices.Contains(p.Tools, l.tool)
	if w := o.match.workers[p.Worker]; l.suspect && w != nil && w.suspects > 0 {
		return false
	}
	return served && able && l.takes(p.Agent) && !o.lanePaused(l)
}

// lanePaused reports whether the calls of the lane are paused.
func (o *Orchestrator) lanePaused(l lane) bool {
	return o.held(holdQueue, l.queue) || o.held(holdTool, l.tool)
}

// lease is a call in the hands of a worker.
type lease struct {
	step    string
	attempt int
	worker  string
	tool    string
	// share is the identity in whose share the call counts.
	share string
	// called is set when the log says that the call has begun, suspect when the call has lost workers.
	called, suspect bool
	// undelivered is set when the call could not be sent to the worker for now.
	undelivered bool
	// heard is when the worker last spoke of the call, zero when it has not since the node restarted.
	heard time.Time
	// length is the silence after which the call is given up.
	length  time.Duration
	expires time.Time
}

// take hands out up to p.Free calls. The lock is held.
func (o *Orchestrator) take(p work.Poll) []offer {
	if o.held(holdNode, "") {
		return nil
	}
	var offers []offer
	for len(offers) < p.Free {
		t := o.next(p)
		if t == nil {
			break
		}
		o.match.remove(t.entry, t.step)
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
	handed      events.Value
	checkpoints []events.Checkpointed
	answers     []*statemachine.Question
}

// lease gives a queued call to a worker, unless a decision that is on its way to the log has
// overtaken it.
func (o *Orchestrator) lease(t *queuedCall, worker string) (offer, bool) {
	e := t.entry
	s := e.task.Steps[t.step]
	if s.State != statemachine.StepReady || s.Attempt != t.attempt || o.stays(e, s) {
		return offer{}, false
	}
	o.grant(e, &lease{step: t.step, attempt: t.attempt, worker: worker, tool: t.lane.tool})
	return o.offer(e, s), true
}

// stays reports whether a ready call may not go to a worker for what its task is in.
func (o *Orchestrator) stays(e *entry, s *statemachine.Step) bool {
	return e.held() || o.rules.Barred(e.task, s)
}

// held reports whether the task is paused. A task that is being cancelled still runs its `always` steps.
func (e *entry) held() bool { return e.task.Paused && !e.task.Cancelling }

// grant puts a call into the hands of a worker for one lease time; nobody else can have it meanwhile. The
// lock is held.
func (o *Orchestrator) grant(e *entry, l *lease) {
	o.match.remove(e, l.step)
	l.heard, l.length = o.now(), o.leaseOf(e, l.step)
	l.expires = l.heard.Add(l.length)
	e.leases[l.step] = l
	o.match.running++
	l.share = shareOf(e.task)
	o.match.shares.running[l.share]++
	l.suspect = decide.Suspect(e.task.Steps[l.step])
	load := o.match.load(l.worker)
	load.leases++
	if decide.IsAgent(l.worker) {
		load.hold(work.Ref{Task: e.id, Step: l.step, Attempt: l.attempt})
	}
	if l.suspect {
		load.suspects++
	}
}

// minLease is the shortest lease: a worker has to beat several times in it.
const minLease = 100 * time.Millisecond

// leaseOf is the longest silence of the worker of a step: the step's `heartbeat`, or that of the node.
func (o *Orchestrator) leaseOf(e *entry, step string) time.Duration {
	n := e.nodeOf(step)
	if n == nil || n.Heartbeat <= 0 {
		if e.task.Steps[step].For != nil {
			return work.AgentLease
		}
		return o.cfg.Lease
	}
	return max(time.Duration(n.Heartbeat), minLease)
}

func (o *Orchestrator) offer(e *entry, s *statemachine.Step) offer {
	r := e.read()
	call := work.Call{
		Ref:      work.Ref{Task: e.id, Step: s.Key, Attempt: s.Attempt},
		Announce: !s.Noted() && (s.Attempt > 1 || s.Since.Before(o.started)),
		Tool:     s.Tool, Effect: s.Effect, State: o.gateState(e.task, s), Timeout: s.Timeout,
		Lease: e.leases[s.Key].length, Name: e.task.Submitted.Name, KeyOf: e.task.Submitted.KeyOf,
		Requester: o.caller(e, s), Declared: r.Declared(s),
		Session: decide.ContextOf(e.task), Client: e.task.Submitted.Client, Note: s.Note, Away: s.Noted(), Anew: s.Anew,
	}
	call.Handover = s.Handover
	of := offer{call: call, args: s.Args, handed: s.Handed, answers: answersOf(e.task, s.Key)}
	tool, ok := o.cfg.Catalogue.Get(s.Tool)
	if !ok {
		return of
	}
	spec := tool.Spec()
	of.call.Secrets = r.SecretsOf(s)
	o.describeGate(e, s, spec, &of.call)
	if spec.NeedsReads {
		of.call.Reads = maps.Clone(e.task.Reads)
	}
	if spec.NeedsCheckpoints {
		of.checkpoints = slices.Clone(e.task.Checkpoints)
	}
	return of
}

// maxParents bounds how far up the parents of a task are followed.
const maxParents = 64

// caller is who a call acts for: whoever made it inside the task, else whoever submitted that. The lock is held.
func (o *Orchestrator) caller(e *entry, s *statemachine.Step) string {
	return cmp.Or(s.By, o.requester(e))
}

// CallerOf returns who a running call acts for, such as agent:builder. CONFLICT when the attempt is not, or no longer,
// in the hands of a worker: what it asks for comes too late. UNAVAILABLE when it soon will be again, as after a restart
// of the node. FORBIDDEN when nobody is known to have made the call.
func (o *Orchestrator) CallerOf(_ context.Context, ref work.Ref) (string, error) {
	if err := o.serving(); err != nil {
		return "", err
	}
	o.lock()
	defer o.unlock()
	e := o.tasks[ref.Task]
	if e == nil || e.task == nil || e.task.Steps[ref.Step] == nil || e.task.Steps[ref.Step].Attempt != ref.Attempt {
		return "", lateFor(ref)
	}
	s, l := e.task.Steps[ref.Step], e.leases[ref.Step]
	switch {
	case l != nil && l.attempt == ref.Attempt:
	case s.State == statemachine.StepReady:
		return "", fault.New(fault.Unavailable, "the call %s of task %s is in nobody's hands now", ref.Step, ref.Task).WithHint("try again in a moment")
	default:
		return "", lateFor(ref)
	}
	if who := o.caller(e, s); who != "" {
		return who, nil
	}
	return "", fault.New(fault.Forbidden, "nobody is known to have made the call %s of task %s", ref.Step, ref.Task)
}

// requester is who submitted the task. A sub-plan acts for whoever submitted the first of its parents; "" when that
// one is not at hand, which only earlier versions did not write down. The lock is held.
func (o *Orchestrator) requester(e *entry) string {
	for range maxParents {
		parent := e.task.Submitted.Parent
		switch {
		case parent == nil:
			return e.task.Requestor
		case parent.Requester != "":
			return parent.Requester
		}
		if e = o.tasks[parent.Task]; e == nil || e.task == nil || e.task.Submitted == nil {
			return ""
		}
	}
	return ""
}

// sinceOf is when the task was made, or the first of its parents.
func sinceOf(e *entry) time.Time {
	if parent := e.task.Submitted.Parent; parent != nil && !parent.Since.IsZero() {
		return parent.Since
	}
	return e.task.CreatedAt
}

// gateState is the state in which the gate sees a call: a step of the plan starts the task, a single
// call finds it as it is. One with a note has passed its gate before.
func (o *Orchestrator) gateState(t *statemachine.Task, s *statemachine.Step) string {
	tool, known := o.cfg.Catalogue.Get(s.Tool)
	switch {
	case known && s.Noted() && !slices.Contains(tool.Spec().Gate.States(), t.State):
		return string(tool.Spec().Gate.States()[0])
	case (t.State == statemachine.NeedsAction || t.State == statemachine.Assigned) && s.Purpose != decide.PurposeCall:
		return string(statemachine.InProgress)
	default:
		return string(t.State)
	}
}

// delivery is what a poll brings, before large values are fetched.
type delivery struct {
	no     uint64
	offers []offer
	cancel []work.Ref
}

func (d delivery) empty() bool { return len(d.offers) == 0 && len(d.cancel) == 0 }

// deliver hands out what there is for a poll. The lock is held.
func (o *Orchestrator) deliver(p work.Poll) delivery {
	d := delivery{offers: o.take(p), cancel: o.takeCancels(p.Worker)}
	w := o.match.workers[p.Worker]
	if len(d.offers) == 0 || w == nil {
		return d
	}
	o.match.batch++
	d.no, w.sent, w.given = o.match.batch, o.match.batch, w.given[:0]
	for _, of := range d.offers {
		w.given = append(w.given, of.call.Ref)
	}
	return d
}

// reclaim queues the calls of the last batch of a worker again if it was lost on its way. The lock is held.
func (o *Orchestrator) reclaim(p work.Poll) {
	w := o.match.workers[p.Worker]
	if w == nil || p.Got == 0 || w.sent == 0 || w.sent == p.Got {
		return
	}
	o.requeueBatch(p.Worker, w)
}

// requeueBatch queues the calls of the last batch of a worker again. The lock is held.
func (o *Orchestrator) requeueBatch(name string, w *workerInfo) {
	for _, ref := range w.given {
		o.requeueCall(name, ref)
	}
	w.sent, w.given = 0, nil
}

// requeueCall queues a call again that its worker has never seen. The lock is held.
func (o *Orchestrator) requeueCall(worker string, ref work.Ref) {
	e := o.tasks[ref.Task]
	if e == nil || e.task == nil {
		return
	}
	l, s := e.leases[ref.Step], e.task.Steps[ref.Step]
	if l == nil || l.worker != worker || l.attempt != ref.Attempt || l.called {
		return // it was seen, or the lease has expired meanwhile
	}
	o.drop(e, ref.Step)
	if s != nil && s.State == statemachine.StepReady && !o.stays(e, s) {
		o.queueCall(e, s)
	}
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
	load := o.match.load(l.worker)
	load.leases--
	delete(load.calls, work.Ref{Task: e.id, Step: step, Attempt: l.attempt})
	if l.suspect {
		load.suspects--
		o.match.refresh(func(l lane) bool { return l.suspect })
	}
	if w := o.match.workers[l.worker]; w != nil && w.refused {
		w.refused = false
		o.match.refresh(func(lane) bool { return true })
	}
	o.match.settle(l.worker)
	o.match.offerAgain(o.match.shares.give(l.share))
	o.match.running = max(o.match.running-1, 0)
}
