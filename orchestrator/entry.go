package orchestrator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// entry is a task in memory. While an append is in flight, the task already holds its events, and
// everybody else waits: nobody sees what is not durable.
type entry struct {
	owner *Orchestrator
	id    events.TaskID
	task  *statemachine.Task
	// plan is what is known of its plan beside the history.
	plan decide.Plan
	// seq is the position in the log of the newest commit.
	seq uint64
	// busy is set while an append or a load is in flight; turns then queue up.
	busy  bool
	turns []func(*entry, error)
	// archived is set when the history lies in the archive.
	archived bool
	// key is the concurrency key that the task holds or waits for.
	key string
	// open is set as long as the end of the task was not followed up; behind when that of an earlier
	// commit may be missing, because the answer of the log was an error.
	open, behind bool
	// calls are those that wait for a worker, and those that workers have.
	calls dispatch.Calls
	// progress is that of running calls; version counts what watchers can see.
	progress map[string]work.Progress
	// output is that of running calls, nil while nobody watches it.
	output  *shownOutput
	version uint64
	changed chan struct{}
	ended   chan struct{}
	// given holds the large values that the next turn needs to go on; searching is set while they are read.
	given     map[string]decide.Fetched
	searching bool
	// steps is how many of its steps are counted (quota).
	steps int
	// counted is set while the task counts as an open one of a share.
	counted bool
	share   string
}

func (o *Orchestrator) newEntry(id events.TaskID) *entry {
	return &entry{owner: o, id: id, calls: dispatch.NewCalls(id)}
}

// note remembers the progress of a running call.
func (e *entry) note(step string, p work.Progress) {
	if e.progress == nil {
		e.progress = map[string]work.Progress{}
	}
	e.progress[step] = p
}

// notify wakes everybody who waits for a change. The lock is held.
func (e *entry) notify() {
	e.version++
	wakeAll(&e.changed)
	if e.task == nil || e.task.State.Terminal() {
		wakeAll(&e.ended)
	}
}

func wakeAll(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}

// change returns a channel that is closed at the next change. The lock is held.
func (e *entry) change() <-chan struct{} { return waitFor(&e.changed) }

// end returns a channel that is closed when the task is over. The lock is held.
func (e *entry) end() <-chan struct{} { return waitFor(&e.ended) }

func waitFor(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

// enter runs fn with the task when nothing is in flight for it, loading it first if need be. fn gets
// NOT_FOUND when there is no such task. The lock is held, also while fn runs.
func (o *Orchestrator) enter(id events.TaskID, fn func(*entry, error)) {
	e := o.tasks[id]
	if e == nil {
		e = o.newEntry(id)
		e.open = o.unread[id].open
		o.tasks[id] = e
		o.waken(e)
		o.load(e)
	}
	if e.busy {
		e.turns = append(e.turns, fn)
		return
	}
	fn(e, nil)
}

// release lets the waiting turns go on, until one of them has an append in flight. The lock is held.
func (o *Orchestrator) release(e *entry) {
	e.busy = false
	for !e.busy && len(e.turns) > 0 {
		fn := e.turns[0]
		e.turns = e.turns[1:]
		fn(e, nil)
	}
	if !e.busy {
		o.listed.settle(o)
	}
}

// load reads the history of an entry in the background. The lock is held.
func (o *Orchestrator) load(e *entry) {
	e.busy = true
	o.outbox = append(o.outbox, func() {
		o.background(func(ctx context.Context) { o.loadNow(ctx, e) }, func() { o.abandon(e, stopping()) })
	})
}

// maxLoads is how many histories are read at the same time.
const maxLoads = 32

func (o *Orchestrator) loadNow(ctx context.Context, e *entry) {
	o.loads <- struct{}{}
	defer func() { <-o.loads }()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	task, newest, err := o.fold(ctx, e.id)
	var prog *plan.Program
	var noPlan *fault.Error
	o.noteDamage(e.id, err)
	if err == nil {
		if prog, err = o.program(ctx, task.Submitted); err != nil && !mayPass(err) {
			prog, noPlan, err = &plan.Program{}, unusablePlan(err), nil
		}
	}
	o.lock()
	defer o.unlock()
	if fault.Has(err, fault.Cancelled) {
		o.abandon(e, stopping())
		return
	}
	if err != nil {
		o.loadFailed(e, err)
		return
	}
	e.task, e.seq, e.archived, e.plan = task, newest.Seq, e.archived || newest.Archived, decide.Plan{Program: prog, Unusable: noPlan}
	o.revive(e)
	e.notify() // the log may have taken what it did not answer
	o.wasRead(e.id)
	o.release(e)
}

// unreadTask is a task that could not be read from the log.
type unreadTask struct {
	// open is true when its end, if it has come to it, was not followed up.
	open bool
	// err is why.
	err *fault.Error
}

// loadFailed gives an entry up whose history could not be read. The lock is held.
func (o *Orchestrator) loadFailed(e *entry, err error) {
	_, known := o.unread[e.id]
	if !known && !absent(err) { // it is tried again and again
		o.cfg.Logger.Error("task_unreadable", slog.Any("task", e.id), slog.Any("error", err))
	}
	o.abandon(e, err)
}

// abandon ends the loading of an entry; one that may be in the log is tried again. The lock is held.
func (o *Orchestrator) abandon(e *entry, err error) {
	turns := e.turns
	e.turns = nil
	delete(o.tasks, e.id)
	o.quota.uncount(e)
	for step := range e.calls.Leases {
		o.drop(e, step)
	}
	if absent(err) {
		if e.open {
			o.leaveAllKeys(e.id)
		}
		o.wasRead(e.id)
		o.timers.clear(e.id)
	} else {
		o.unread[e.id] = unreadTask{open: e.open, err: fault.From(err)}
		o.timers.set(o.now().Add(catchUpAfter), e.id)
	}
	for _, fn := range turns {
		fn(nil, err)
	}
	e.notify()
}

// fold reads and folds the history of a task. It also returns the newest commit.
func (o *Orchestrator) fold(ctx context.Context, id events.TaskID) (*statemachine.Task, events.Stored, error) {
	task, newest := &statemachine.Task{}, events.Stored{}
	for stored, err := range o.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return nil, newest, err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return nil, newest, err
		}
		if err := task.Fold(c, stored.Data); err != nil {
			return nil, newest, err
		}
		newest = stored
	}
	if task.Rev == 0 {
		return nil, newest, noTask(id)
	}
	return task, newest, nil
}

// noteDamage remembers that the log has lost or changed something. From then on nothing is appended: who
// writes on would bury what is left to save. The lock is not held.
func (o *Orchestrator) noteDamage(id events.TaskID, err error) {
	if !unreadableHistory(err) {
		return
	}
	o.lock()
	defer o.unlock()
	switch {
	case o.loss != nil:
	case fault.Has(err, fault.NewerStore):
		o.loss = fault.Wrap(fault.NewerStore, err, "a newer orch has written the history of "+string(id)).
			WithHint("the log is read-only; use the newer orch")
		o.cfg.Logger.Error("log_newer", slog.Any("task", id), slog.Any("error", err))
	default:
		o.loss = fault.New(fault.DataLoss, "the history of %s is damaged: %s", id, fault.From(err).Message).
			WithHint("the log is read-only; run orch verify, and restore the data directory from a backup")
		o.cfg.Logger.Error("log_damaged", slog.Any("task", id), slog.Any("error", err))
	}
}

// unreadableHistory reports whether an error says that this program cannot read a history, now or later.
func unreadableHistory(err error) bool {
	return fault.Has(err, fault.DataLoss) || fault.Has(err, fault.NewerStore)
}

// absent reports whether an error says that there is no such task, or none any more.
func absent(err error) bool { return fault.Has(err, fault.NotFound) || fault.Has(err, fault.Gone) }

func noTask(id events.TaskID) error {
	return fault.New(fault.NotFound, "there is no task %s", id).WithField("id").
		WithHint("orch list shows the tasks")
}

// catchUpAfter is how long the node waits after an error of the log before it tries by itself to go on.
const catchUpAfter = time.Second

// revive makes the derived state of a task that was just loaded: its place in queues, timers,
// concurrency keys and dependencies. The lock is held.
func (o *Orchestrator) revive(e *entry) {
	o.listed.update(e)
	o.reviveLeases(e)
	if e.task.State.Terminal() {
		o.reviveEnded(e)
		return
	}
	o.queueReady(e)
	e.open = true
	o.quota.count(e, e.task.Submitted)
	o.quota.weigh(e)
	o.reviveKey(e)
	o.noteDelegated(e)
	o.setTimer(e, o.now())
	if e.behind {
		o.timers.set(o.now().Add(catchUpAfter), e.id)
		return
	}
	o.catchUp(e)
	o.timers.set(o.now(), e.id) // whatever was decided but not yet followed up, such as a due timer
}

// reviveEnded follows the end of a task up when the answer to its last append was lost.
func (o *Orchestrator) reviveEnded(e *entry) {
	switch {
	case e.open:
		if c := e.task.Submitted.Concurrency; c != nil {
			e.key = c.Key
		}
		o.queueReady(e)
		o.over(e)
		return
	case e.behind:
		o.queueReady(e)
	default:
		o.timers.clear(e.id) // that of an earlier attempt to read it
		if !e.archived {
			o.dropCalls(e)
		}
	}
	o.followChildren(e, e.task) // single calls may have started some
	o.listed.whole = append(o.listed.whole, e.id)
}

// dropCalls cancels the single calls that no worker had when the node stopped, after the end of the task.
// Nobody waits for them any more, and to look at a task must not make a call. The lock is held.
func (o *Orchestrator) dropCalls(e *entry) {
	waits := func(s *statemachine.Step) bool {
		return s.State == statemachine.StepReady || s.State == statemachine.StepPending
	}
	if !slices.ContainsFunc(e.task.Order, func(key string) bool { return waits(e.task.Steps[key]) }) {
		return
	}
	o.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
		for _, key := range slices.Clone(t.Task.Order) {
			if waits(t.Task.Steps[key]) {
				t.Emit(events.StepCancelled, &events.Skipped{Step: key, Reason: "the node has stopped since the end of the task"})
			}
		}
		return nil
	}, ignore)
}

// reviveLeases takes up the calls that workers are known to have begun, and ends those that the log
// says are over.
func (o *Orchestrator) reviveLeases(e *entry) {
	for _, step := range sortedKeys(e.calls.Leases) {
		if !fitsLease(e.task.Steps[step], e.calls.Leases[step]) {
			o.revoke(e, step)
		}
	}
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.Executing() && e.calls.Leases[key] == nil {
			l := &dispatch.Lease{Ref: work.Ref{Task: e.id, Step: key, Attempt: s.Attempt}, Worker: s.Worker, Tool: s.Tool, Called: true}
			o.grant(e, l)
			l.Heard = time.Time{}
		}
	}
}

// fitsLease reports whether a step is as its lease says: one that has begun is in the hands of the worker that
// has begun it.
func fitsLease(s *statemachine.Step, l *dispatch.Lease) bool {
	if s == nil || s.Attempt != l.Attempt {
		return false
	}
	return s.State == statemachine.StepReady || (s.Executing() && s.Worker == l.Worker)
}

// catchUp asks about everything outside the task that may have changed unheard. The lock is held.
func (o *Orchestrator) catchUp(e *entry) {
	e.behind = false
	task := e.task
	o.awaitDependencies(e)
	if e.task == nil {
		return // what it heard could not be written: it is read again, and asks then
	}
	o.askParent(e)
	o.followChildren(e, task)
}

// followChildren makes sure that the children of running steps exist and that their ends are heard. The lock
// is held.
func (o *Orchestrator) followChildren(e *entry, task *statemachine.Task) {
	for _, key := range task.Order {
		if s := task.Steps[key]; e.task != nil && s.State == statemachine.StepRunning && s.Child != "" {
			o.followChild(e.id, s.Child)
		}
	}
}

func (o *Orchestrator) queueReady(e *entry) {
	for _, key := range e.task.Order {
		if s := e.task.Steps[key]; s.State == statemachine.StepReady && e.calls.Leases[key] == nil && !o.stays(e, s) {
			o.queueCall(e, s)
		}
	}
	o.dispatcher.Dispatch()
}

// restore finds the open tasks in the log and loads them.
func (o *Orchestrator) restore(ctx context.Context) error {
	if err := o.restoreHolds(ctx); err != nil {
		return err
	}
	o.restoreArchiving(ctx)
	open, err := o.findOpenTasks(ctx)
	if err != nil {
		return err
	}
	if err := o.restorePast(ctx); err != nil {
		return err
	}
	failpoint.Pass(failpoint.Restoring)
	return o.restoreOpen(ctx, open)
}

// restorePast finds out whether anything was ever archived. What it is, is read when asked for.
func (o *Orchestrator) restorePast(ctx context.Context) error {
	has, err := o.cfg.Log.HasPast(ctx)
	if err != nil || !has {
		return err
	}
	o.lock()
	defer o.unlock()
	o.listed.forget(o.started)
	return nil
}

func (o *Orchestrator) restoreOpen(ctx context.Context, open []events.TaskID) error {
	const readers = 16
	results := make(chan error, len(open))
	slots := make(chan struct{}, readers)
	for _, id := range open {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		o.lock()
		o.enter(id, func(_ *entry, err error) { <-slots; results <- err })
		o.unlock()
	}
	for range open {
		select {
		case err := <-results:
			if err != nil && !fault.Has(err, fault.NotFound) && ctx.Err() == nil {
				o.cfg.Logger.ErrorContext(ctx, "open_task_unreadable", slog.Any("error", err))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
