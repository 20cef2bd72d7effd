package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
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
	d, waiting := o.dispatcher.Poll(p)
	o.unlock()
	if waiting == nil {
		return o.batch(ctx, p.Worker, d), nil
	}
	timer := time.NewTimer(min(p.Wait, maxPoll))
	defer timer.Stop()
	select {
	case d = <-waiting.Out:
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
func (o *Orchestrator) leave(p *dispatch.Poller) dispatch.Delivery {
	o.lock()
	defer o.unlock()
	return o.dispatcher.Leave(p)
}

// giveBack queues calls again that could not be delivered.
func (o *Orchestrator) giveBack(worker string, d dispatch.Delivery) {
	o.lock()
	defer o.unlock()
	o.dispatcher.GiveBack(worker, d)
}

// Returned implements work.Source.
func (o *Orchestrator) Returned(no uint64) {
	o.lock()
	defer o.unlock()
	o.dispatcher.Returned(no)
}

// Start implements work.Owner.
func (o *Orchestrator) Start(ctx context.Context, s work.Started) error {
	return o.change(ctx, s.Task, workerActor(s.Worker), func(t *decide.Turn) error {
		step := t.Task.Steps[s.Step]
		if step != nil && step.State == statemachine.StepRunning && step.Attempt == s.Attempt && step.Worker == s.Worker {
			return nil
		}
		if !t.Holds(s.Ref, s.Worker) {
			return lateFor(s.Ref)
		}
		if s.Effect == string(tools.Destructive) && !step.Noted() {
			t.Attempts().CheckpointBefore(step)
		}
		if step.For != nil && step.Purpose != decide.PurposeCall {
			t.Attempts().Assign(s.Worker)
		}
		t.Attempts().Begin(step, s, t.Now)
		return nil
	})
}

// workerActor is who a worker, or an agent, is in the log.
func workerActor(name string) string {
	if decide.IsAgent(name) {
		return name
	}
	return "worker:" + name
}

func lateFor(r work.Ref) error {
	return fault.New(fault.Conflict, "attempt %d of step %s is no longer the current one", r.Attempt, r.Step)
}

// called notes in the lease that the log knows of the call. The lock is held.
func (o *Orchestrator) called(e *entry, d *events.Called) {
	o.dispatcher.Remove(&e.calls, d.Step)
	s := e.task.Steps[d.Step]
	if !s.Executing() {
		return // its result, or the child that it asks for, came in the same commit
	}
	if e.calls.Leases[d.Step] == nil {
		o.grant(e, &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: d.Step, Attempt: d.Attempt}, Worker: d.Worker, Tool: s.Tool})
	}
	e.calls.Leases[d.Step].Called = true
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
	w := o.dispatcher.Hear(b.Worker, b.Queues, now)
	if b.Leaving {
		w.Seen = time.Time{} // it is online no more
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
	t := e.read()
	if !t.Holds(p.Ref, worker) {
		return false
	}
	l := e.calls.Leases[p.Step]
	if l == nil {
		l = &dispatch.Lease{Ref: p.Ref, Worker: worker, Tool: p.Tool, Called: e.task.Steps[p.Step].State == statemachine.StepRunning}
		o.grant(e, l)
	}
	l.Heard, l.Expires = now, now.Add(l.Length)
	o.showProgress(e, p)
	if e.task.State == statemachine.Assigned && !p.Unheard {
		o.turn(p.Task, workerActor(worker), func(t *decide.Turn) error { t.Attempts().TakeUp(); return nil }, ignore)
	}
	if !l.Called {
		l.Called = true
		o.turn(p.Task, workerActor(worker), func(t *decide.Turn) error {
			if s := t.Task.Steps[p.Step]; t.Holds(p.Ref, worker) && s.State == statemachine.StepReady {
				t.Attempts().Begin(s, work.Started{Worker: worker, Effect: p.Effect}, now)
			}
			return nil
		}, ignore)
	}
	return true
}

func ignore(error) {}
