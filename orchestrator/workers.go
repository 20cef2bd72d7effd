package orchestrator

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// workSource implements work.Source, the interface for workers.
type workSource struct {
	*core

	engine   *engine
	reader   *reader
	approver *approver
	blobs    *blobStore
	compiler *compiler
	clean    *cleaner
	queue    *callQueue
}

var _ work.Source = (*Orchestrator)(nil)

// maxPoll limits how long a poll waits for calls.
const maxPoll = 30 * time.Second

// Poll implements work.Owner.
func (ws *workSource) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if err := ws.checkWorker(p.Worker); err != nil {
		return work.Batch{}, err
	}
	ws.lock()
	d, waiting := ws.queue.dispatcher.Poll(p)
	ws.unlock()
	if waiting == nil {
		return ws.batch(ctx, p.Worker, d), nil
	}
	timer := time.NewTimer(min(p.Wait, maxPoll))
	defer timer.Stop()
	select {
	case d = <-waiting.Out:
	case <-timer.C:
		d = ws.endPoll(waiting)
	case <-ws.stopped:
		return work.Batch{}, ws.serving()
	case <-ctx.Done():
		ws.requeueDelivery(p.Worker, ws.endPoll(waiting))
		return work.Batch{}, fault.From(ctx.Err())
	}
	return ws.batch(ctx, p.Worker, d), nil
}

// checkWorker returns why a worker cannot be served, or nil if it can.
func (ws *workSource) checkWorker(worker string) error {
	if err := ws.serving(); err != nil {
		return err
	}
	if worker == "" || len(worker) > maxText {
		return fault.New(fault.RequiredField, "must be 1 to %d bytes", maxText).WithField("worker")
	}
	return nil
}

// endPoll ends the wait of a poller, and returns the delivery that was assigned to it just before, if there is one.
func (ws *workSource) endPoll(p *dispatch.Poller) dispatch.Delivery {
	ws.lock()
	defer ws.unlock()
	return ws.queue.dispatcher.EndPoll(p)
}

// requeueDelivery returns the calls of a delivery that did not reach its worker to their queues.
func (ws *workSource) requeueDelivery(worker string, d dispatch.Delivery) {
	ws.lock()
	defer ws.unlock()
	ws.queue.dispatcher.RequeueDelivery(worker, d)
}

// Undelivered implements work.Source.
func (ws *workSource) Undelivered(no uint64) {
	ws.lock()
	defer ws.unlock()
	ws.queue.dispatcher.RequeueBatch(no)
}

// Start implements work.Owner.
func (ws *workSource) Start(ctx context.Context, s work.Started) error {
	return ws.engine.change(ctx, s.Task, workerActor(s.Worker), func(t *decide.Turn) error {
		step := t.Task.Steps[s.Step]
		if step != nil && step.State == statemachine.StepRunning && step.Attempt == s.Attempt && step.Worker == s.Worker {
			return nil
		}
		if !t.Holds(s.Ref, s.Worker) {
			return lateFor(s.Ref)
		}
		if s.Effect == string(tools.Destructive) && !step.RunsElsewhere() {
			t.Attempts().CheckpointBefore(step)
		}
		if step.For != nil && step.Purpose != decide.PurposeCall {
			t.Attempts().Assign(s.Worker)
		}
		t.Attempts().Start(step, s, t.Now)
		return nil
	})
}

// workerActor returns the actor of a worker, or of an agent, in the log.
func workerActor(name string) string {
	if decide.IsAgent(name) {
		return name
	}
	return "worker:" + name
}

// lateFor returns the error for a report of an attempt that is no longer current.
func lateFor(r work.Ref) error {
	return fault.New(fault.Conflict, "attempt %d of step %s is no longer the current one", r.Attempt, r.Step)
}

// Heartbeat implements work.Owner.
func (ws *workSource) Heartbeat(_ context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	if err := ws.checkWorker(b.Worker); err != nil {
		return work.HeartbeatReply{}, err
	}
	ws.clean.cleanOutput(b.Calls)
	ws.lock()
	defer ws.unlock()
	now := ws.now()
	w := ws.queue.dispatcher.Touch(b.Worker, b.Queues, now)
	if b.Final {
		w.Seen = time.Time{} // the worker counts as offline from now on
	}
	var reply work.HeartbeatReply
	for _, p := range b.Calls {
		switch e := ws.engine.tasks[p.Task]; {
		case !ws.renew(b.Worker, p, now):
			reply.Stop = append(reply.Stop, p.Ref)
		case e != nil && e.task != nil && ws.showOutput(e, p, now):
			reply.Show = append(reply.Show, p.Ref)
		}
	}
	return reply, nil
}

// renew extends the lease of one call, or restores the lease of a call after a restart of the node. It reports whether the
// worker still holds the call.
func (ws *workSource) renew(worker string, p work.CallHeartbeat, now time.Time) bool {
	e := ws.engine.tasks[p.Task]
	if e == nil {
		return ws.engine.concurrencyKeys.isUnread(p.Task) // the task will be read again
	}
	if e.task == nil {
		return true // the task is being loaded; the next heartbeat renews the lease
	}
	t := e.read()
	if !t.Holds(p.Ref, worker) {
		return false
	}
	l := e.calls.Leases.Get(p.Step)
	if l == nil {
		l = &dispatch.Lease{Ref: p.Ref, Worker: worker, Tool: p.Tool, Called: e.task.Steps[p.Step].State == statemachine.StepRunning}
		ws.queue.lease(e, l)
	}
	l.LastHeartbeat, l.Expires = now, now.Add(l.TTL)
	ws.showProgress(e, p)
	if e.task.State == statemachine.Assigned && !p.Undelivered {
		ws.engine.turn(p.Task, workerActor(worker), func(t *decide.Turn) error { t.Attempts().Confirm(); return nil }, ignore)
	}
	if !l.Called {
		l.Called = true
		ws.engine.turn(p.Task, workerActor(worker), func(t *decide.Turn) error {
			if s := t.Task.Steps[p.Step]; t.Holds(p.Ref, worker) && s.State == statemachine.StepReady {
				t.Attempts().Start(s, work.Started{Worker: worker, Effect: p.Effect}, now)
			}
			return nil
		}, ignore)
	}
	return true
}
