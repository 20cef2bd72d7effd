package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

var _ work.Source = (*Orchestrator)(nil)

const maxPoll = 30 * time.Second

// Poll implements work.Owner.
func (o *Orchestrator) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if err := o.hear(p.Worker); err != nil {
		return work.Batch{}, err
	}
	o.lock()
	w := o.match.worker(p.Worker, p.Queues, o.now())
	w.agent, w.slots = p.Agent, p.Slots
	o.match.pollers.supersede(p.Worker)
	o.reclaim(p)
	d := o.deliver(p)
	if !d.empty() || p.Wait <= 0 {
		o.unlock()
		return o.batch(ctx, p.Worker, d), nil
	}
	waiting := &poller{poll: p, out: make(chan delivery, 1)}
	o.match.pollers.add(waiting)
	o.unlock()
	timer := time.NewTimer(min(p.Wait, maxPoll))
	defer timer.Stop()
	select {
	case d = <-waiting.out:
	case <-timer.C:
		d = o.leave(waiting)
	case <-o.stopped:
		return work.Batch{}, o.serving()
	case <-ctx.Done():
		o.giveBack(p.Worker, o.leave(waiting))
		return work.Batch{}, fault.From(ctx.Err())
	}
	return o.batch(ctx, p.Worker, d), nil
}

// hear returns why a worker cannot be served.
func (o *Orchestrator) hear(worker string) error {
	if err := o.serving(); err != nil {
		return err
	}
	if worker == "" || len(worker) > maxText {
		return fault.New(fault.RequiredField, "must be 1 to %d bytes", maxText).WithField("worker")
	}
	return nil
}

// leave ends the wait of a poller and returns what it was given in that moment.
func (o *Orchestrator) leave(p *poller) delivery {
	o.lock()
	defer o.unlock()
	o.match.pollers.remove(p)
	select {
	case d := <-p.out:
		return d
	default:
		return delivery{}
	}
}

// giveBack queues calls again that could not be delivered.
func (o *Orchestrator) giveBack(worker string, d delivery) {
	o.lock()
	defer o.unlock()
	if w := o.match.workers[worker]; w != nil {
		w.cancel = append(d.cancel, w.cancel...)
		o.match.told = append(o.match.told, worker)
	}
	for _, of := range d.offers {
		o.requeueCall(worker, of.call.Ref)
	}
	o.dispatch()
}

// Returned implements work.Source.
func (o *Orchestrator) Returned(no uint64) {
	o.lock()
	defer o.unlock()
	for name, w := range o.match.workers {
		if w.sent == no {
			o.requeueBatch(name, w)
			o.dispatch()
			return
		}
	}
}

// Start implements work.Owner.
func (o *Orchestrator) Start(ctx context.Context, s work.Started) error {
	return o.change(ctx, s.Task, workerActor(s.Worker), func(t *turn) error {
		step := t.task.Steps[s.Step]
		if step != nil && step.State == statemachine.StepRunning && step.Attempt == s.Attempt && step.Worker == s.Worker {
			return nil
		}
		if !t.holds(s.Ref, s.Worker) {
			return lateFor(s.Ref)
		}
		if s.Effect == string(tools.Destructive) && !step.Noted() {
			t.checkpointBefore(step)
		}
		if step.For != nil && step.Purpose != purposeCall {
			t.assign(s.Worker)
		}
		t.begin(step, s, t.now)
		return nil
	})
}

// checkpointBefore makes the checkpoint that every destructive call has before it (S0-171, A-44).
func (t *turn) checkpointBefore(s *statemachine.Step) {
	t.emit(events.CheckpointCreated, &events.Checkpointed{
		ID: events.CheckpointIDFrom(t.task.ID, t.rules.entropy), Name: "before " + s.Key + " (" + s.Tool + ")",
		State: events.Inline(json.RawMessage("{}")), At: t.now,
	})
}

// workerActor is who a worker, or an agent, is in the log.
func workerActor(name string) string {
	if isAgent(name) {
		return name
	}
	return "worker:" + name
}

// isAgent reports whether the name of a worker is that of a registered agent, which is an actor by that name.
func isAgent(worker string) bool { return strings.HasPrefix(worker, events.AgentPrefix) }

func lateFor(r work.Ref) error {
	return fault.New(fault.Conflict, "attempt %d of step %s is no longer the current one", r.Attempt, r.Step)
}

// holds reports whether a worker may act for an attempt: it is the current one, its call is not over,
// and no other worker has it. A worker is trusted when it names a call that nobody has, which is how it finds its
// calls again after a restart of the node. An agent is not: its calls are in the log before it hears of them.
func (t *reading) holds(r work.Ref, worker string) bool {
	s := t.task.Steps[r.Step]
	if s == nil || s.Tool == "" || s.Attempt != r.Attempt {
		return false
	}
	switch s.State {
	case statemachine.StepReady:
		holder, held := t.facts.holder(r.Step)
		return !held && !isAgent(worker) || held && holder == worker
	case statemachine.StepRunning:
		return s.Executing() && s.Worker == worker
	default:
		return false
	}
}

// begin records that a worker executes the call, which has the effect and the time limit that it names. A call of the plan
// brings the task to IN_PROGRESS; one for agents does so when the agent says that it has it.
func (t *turn) begin(s *statemachine.Step, as work.Started, at time.Time) {
	if s.Purpose != purposeCall && (s.For == nil || t.task.State != statemachine.Assigned) {
		t.activate()
	}
	if at.IsZero() || at.After(t.now) {
		at = t.now // the worker's clock is wrong
	}
	called := &events.Called{Step: s.Key, Attempt: s.Attempt, Worker: as.Worker, At: events.Time(at), Effect: t.resolved(s, as.Effect)}
	if effect := tools.Effect(cmp.Or(called.Effect, s.Effect)); effect.AtMostOnce() && as.Timeout > 0 && as.Timeout != s.Timeout {
		called.Timeout = as.Timeout
	}
	t.emit(events.StepCalled, called)
}

// called notes in the lease that the log knows of the call. The lock is held.
func (o *Orchestrator) called(e *entry, d *events.Called) {
	o.match.remove(e, d.Step)
	s := e.task.Steps[d.Step]
	if !s.Executing() {
		return // its result, or the child that it asks for, came in the same commit
	}
	if e.leases[d.Step] == nil {
		o.grant(e, &lease{step: d.Step, attempt: d.Attempt, worker: d.Worker, tool: s.Tool})
	}
	e.leases[d.Step].called = true
}

// Heartbeat implements work.Owner.
func (o *Orchestrator) Heartbeat(_ context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	if err := o.hear(b.Worker); err != nil {
		return work.HeartbeatReply{}, err
	}
	o.cleanOutput(b.Calls)
	o.lock()
	defer o.unlock()
	now := o.now()
	w := o.match.worker(b.Worker, b.Queues, now)
	if b.Leaving {
		w.seen = time.Time{} // it is online no more
	}
	var reply work.HeartbeatReply
	for _, p := range b.Calls {
		switch e := o.tasks[p.Task]; {
		case !o.renew(b.Worker, p, now):
			reply.Stop = append(reply.Stop, p.Ref)
		case e != nil && e.task != nil && o.showOutput(e, p, now):
			reply.Show = append(reply.Show, p.Ref)
		}
	}
	return reply, nil
}

// renew extends the lease of one call, or takes a call up again that the node lost sight of in a
// restart. It reports whether the call is still the worker's.
func (o *Orchestrator) renew(worker string, p work.CallHeartbeat, now time.Time) bool {
	e := o.tasks[p.Task]
	if e == nil {
		return o.isUnread(p.Task) // it will be read again
	}
	if e.task == nil {
		return true // being loaded; the next heartbeat tells
	}
	t := o.read(e)
	if !t.holds(p.Ref, worker) {
		return false
	}
	l := e.leases[p.Step]
	if l == nil {
		l = &lease{step: p.Step, attempt: p.Attempt, worker: worker, tool: p.Tool, called: e.task.Steps[p.Step].State == statemachine.StepRunning}
		o.grant(e, l)
	}
	l.heard, l.expires = now, now.Add(l.length)
	o.showProgress(e, p)
	if e.task.State == statemachine.Assigned && !p.Unheard {
		o.turn(p.Task, workerActor(worker), func(t *turn) error { t.takeUp(); return nil }, ignore)
	}
	if !l.called {
		l.called = true
		o.turn(p.Task, workerActor(worker), func(t *turn) error {
			if s := t.task.Steps[p.Step]; t.holds(p.Ref, worker) && s.State == statemachine.StepReady {
				t.begin(s, work.Started{Worker: worker, Effect: p.Effect}, now)
			}
			return nil
		}, ignore)
	}
	return true
}

func ignore(error) {}

// take records an outcome, or reports that it came too late.
func (t *turn) take(r work.Outcome, in received) (late bool) {
	s := t.task.Steps[r.Step]
	switch {
	case t.holds(r.Ref, r.Worker), failpoint.On(failpoint.SkipFence) && s != nil && s.State == statemachine.StepRunning:
		if in.output.Ref != "" {
			t.facts.remember(in.output.Ref, r.Output)
		}
		t.outcome(s, r, in)
	case s != nil && heard(s, r) && (!isAgent(r.Worker) || same(s, r, in)):
	default:
		t.refuse(s, r)
		return true
	}
	return false
}

// heard reports whether an outcome only repeats what was recorded before.
func heard(s *statemachine.Step, r work.Outcome) bool {
	if notes(r) && s.NotedIn == r.Attempt { // another worker that was given the attempt has another note
		return bytes.Equal(s.Note, r.Note)
	}
	if s.Attempt != r.Attempt || s.Worker != r.Worker {
		return false
	}
	if r.Spawn != nil {
		return s.Spawned != nil || s.Class == fault.ClassBudget
	}
	switch s.State {
	case statemachine.StepSucceeded:
		return r.Error == nil && r.Ask == nil && len(r.Questions) == 0 && !notes(r)
	case statemachine.StepParked:
		return r.Ask != nil || len(r.Questions) > 0
	case statemachine.StepFailed, statemachine.StepPending:
		judged := s.Class == fault.ClassUnexpected || s.Class == fault.ClassExpression || s.Class == "" && s.Repeats > 0
		return r.Error != nil && r.Class == s.Class || r.Error == nil && judged
	case statemachine.StepInDoubt:
		return r.Error != nil && r.Class == fault.ClassShutdown && isAgent(r.Worker)
	default:
		return false
	}
}

// same reports whether an outcome that repeats one says the same. Agents are programs of others: one that tells two ends of a
// call hears which of them counts.
func same(s *statemachine.Step, r work.Outcome, in received) bool {
	switch {
	case s.State == statemachine.StepSucceeded:
		return s.Output.Ref == in.output.Ref && bytes.Equal(s.Output.Raw, in.output.Raw)
	case s.State == statemachine.StepInDoubt:
		return r.Error.Message == s.Reason
	case r.Error == nil || s.Error == nil || interrupted(r.Class):
		return true
	default:
		return r.Error.Message == s.Error.Message
	}
}

// refuse notes a result that came from an attempt that is no longer current (I7).
func (t *turn) refuse(s *statemachine.Step, r work.Outcome) {
	if s == nil || r.Stray || nothingToSay(s, r) && !s.Awaited(r.Attempt, r.Worker) {
		return
	}
	t.emit(events.ResultRefused, &events.Refused{
		Step: r.Step, Attempt: r.Attempt, Tool: s.Tool, Worker: r.Worker,
		Reason: "the step is " + string(s.State) + " in attempt " + strconv.Itoa(s.Attempt),
	})
}

// nothingToSay reports whether a late outcome is only that of a call which was ended from outside: by its own worker, or
// because the step was cancelled.
func nothingToSay(s *statemachine.Step, r work.Outcome) bool {
	return r.Class == fault.ClassCancelled || r.Class == fault.ClassShutdown ||
		r.Class == fault.ClassWorkerLost && s.State == statemachine.StepCancelled
}

// outcome records the end of a call.
func (t *turn) outcome(s *statemachine.Step, r work.Outcome, in received) {
	if r.Ask != nil {
		t.park(s, r.Ask, in.lent)
		return
	}
	if s.State == statemachine.StepReady {
		if r.RetryAfter > 0 && s.Purpose == "" {
			t.emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: r.Error, Class: r.Class, At: events.Time(t.now.Add(r.RetryAfter))})
			return
		}
		if r.Class == fault.ClassShutdown {
			t.failed(s, r.Error, r.Class, r.Duration)
			return
		}
		t.begin(s, work.Started{Worker: r.Worker, Effect: r.Effect}, r.StartedAt)
	}
	if r.HandTo == nil && r.Class != fault.ClassShutdown {
		t.takeUp()
	}
	switch {
	case len(r.Questions) > 0:
		t.inquire(s, r)
		return
	case notes(r):
		t.goOnElsewhere(s, r)
		return
	case r.HandTo != nil:
		t.handOff(s, r)
		return
	}
	for _, f := range r.Facts {
		t.record(f)
	}
	switch {
	case r.Error != nil:
		t.wish = r.Retry
		t.failed(s, r.Error, r.Class, r.Duration)
	case in.spawned != nil:
		t.spawnChild(s, in.spawned, r.Duration)
	default:
		t.succeeded(s, in.output, r.Output, r.Duration)
	}
}

// succeeded ends an attempt whose tool did not fail: with its result, unless the plan expects another one.
func (t *turn) succeeded(s *statemachine.Step, output events.Value, raw json.RawMessage, took time.Duration) {
	if n := t.nodeByKey(s.Key); n != nil && s.Purpose == "" {
		if err := n.Expected(raw); err != nil {
			t.unexpected = raw
			t.failed(s, fault.From(t.rules.redacted(err)), classOfResult(err), took)
			return
		}
		if t.nextRound(n, s, output, raw, took) {
			return
		}
	}
	t.emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Attempt: s.Attempt, Output: output, Duration: took})
}

// classOfResult is the class of a failure that only the plan sees in a result.
func classOfResult(err error) string {
	if plan.Unexpected(err) {
		return fault.ClassUnexpected
	}
	return fault.ClassExpression
}

// failed ends an attempt with an error: another attempt, doubt, or the end of the step.
func (t *turn) failed(s *statemachine.Step, err *fault.Error, class string, took time.Duration) {
	if interrupted(class) && s.Noted() && !t.spent(s, class) {
		t.emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took, At: t.now})
		return // callAgain makes it ready
	}
	if (interrupted(class) || err.Code == fault.InDoubt) && mayHaveHappened(s) {
		t.emit(events.StepInDoubt, &events.InDoubt{Step: s.Key, Attempt: s.Attempt, Reason: err.Message, Gone: !interrupted(class), Until: t.mayRun})
		return
	}
	if class == fault.ClassShutdown && !t.spent(s, class) {
		at := t.now
		if err.RetryAt.After(at) {
			at = events.Time(err.RetryAt)
		}
		t.emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took, At: at})
		return
	}
	if at, again := t.again(s, err, class); again {
		if err.RetryAt.After(at) {
			at = events.Time(err.RetryAt)
		}
		t.emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Counts: true, Error: err, Class: class, Duration: took, At: at, KeepsGrant: t.keepsGrant(s, class)})
		return
	}
	if interrupted(class) {
		err = outlived(s, class, err)
	}
	t.emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: class, Duration: took})
}

// ruleFor is how failures of a call are met: as the plan says, else as the agent wishes that had the call, if it may be
// repeated.
func (t *turn) ruleFor(n *plan.Node, effect plan.Effect) *plan.Retry {
	if rule := t.retryOf(n); rule != nil || t.wish == nil || effect != plan.EffectRead && effect != plan.EffectIdempotent {
		return rule
	}
	return plan.NewRetry(t.wish.Max+1, t.wish.Backoff)
}

// again decides about another attempt by the retry rule of the step.
func (t *turn) again(s *statemachine.Step, err *fault.Error, class string) (time.Time, bool) {
	if s.Purpose != "" || t.task.Cancelling || (interrupted(class) && t.spent(s, class)) {
		return time.Time{}, false
	}
	n := t.nodeByKey(s.Key)
	if n == nil {
		return time.Time{}, false
	}
	effect := plan.Effect(s.Effect)
	rule, failures := t.ruleFor(n, effect), s.Failures+1
	if s.State == statemachine.StepReady {
		effect = plan.EffectRead // the call has not begun, so it can be made anew
	}
	if end := t.task.Submitted.Deadline; class == fault.ClassRateLimited && end != nil && err.RetryAt.After(*end) {
		return time.Time{}, false // the limit lasts longer than the task may
	}
	judged := plan.Attempt{Number: failures, Class: class, Code: string(err.Code), Message: err.Message, Output: t.unexpected}
	if !rule.Allows(class, failures, effect) || !n.RetryWhen(judged) {
		return time.Time{}, false
	}
	return events.Time(t.now.Add(rule.Delay(failures, t.rules.random()))), true
}
