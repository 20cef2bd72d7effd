package orchestrator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// entry is a task in memory. While an append is in flight, the task already holds its events, and
// everybody else waits: nobody sees what is not durable.
type entry struct {
	owner *engine
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

func (en *engine) newEntry(id events.TaskID) *entry {
	return &entry{owner: en, id: id, calls: dispatch.NewCalls(id)}
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
func (en *engine) enter(id events.TaskID, fn func(*entry, error)) {
	e := en.tasks[id]
	if e == nil {
		e = en.newEntry(id)
		e.open = en.keyring.unread[id].open
		en.tasks[id] = e
		en.waken(e)
		en.load(e)
	}
	if e.busy {
		e.turns = append(e.turns, fn)
		return
	}
	fn(e, nil)
}

// release lets the waiting turns go on, until one of them has an append in flight. The lock is held.
func (en *engine) release(e *entry) {
	e.busy = false
	for !e.busy && len(e.turns) > 0 {
		fn := e.turns[0]
		e.turns = e.turns[1:]
		fn(e, nil)
	}
	if !e.busy {
		en.listed.settle(en)
	}
}

// load reads the history of an entry in the background. The lock is held.
func (en *engine) load(e *entry) {
	e.busy = true
	en.outbox = append(en.outbox, func() {
		en.background(func(ctx context.Context) { en.loadNow(ctx, e) }, func() { en.abandon(e, stopping()) })
	})
}

// maxLoads is how many histories are read at the same time.
const maxLoads = 32

func (en *engine) loadNow(ctx context.Context, e *entry) {
	en.loads <- struct{}{}
	defer func() { <-en.loads }()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	task, newest, err := en.fold(ctx, e.id)
	var prog *plan.Program
	var noPlan *fault.Error
	en.noteDamage(e.id, err)
	if err == nil {
		if prog, err = en.compiler.program(ctx, task.Submitted); err != nil && !mayPass(err) {
			prog, noPlan, err = &plan.Program{}, unusablePlan(err), nil
		}
	}
	en.lock()
	defer en.unlock()
	if fault.Has(err, fault.Cancelled) {
		en.abandon(e, stopping())
		return
	}
	if err != nil {
		en.loadFailed(e, err)
		return
	}
	e.task, e.seq, e.archived, e.plan = task, newest.Seq, e.archived || newest.Archived, decide.Plan{Program: prog, Unusable: noPlan}
	en.revive(e)
	e.notify() // the log may have taken what it did not answer
	en.keyring.wasRead(e.id)
	en.release(e)
}

// unreadTask is a task that could not be read from the log.
type unreadTask struct {
	// open is true when its end, if it has come to it, was not followed up.
	open bool
	// err is why.
	err *fault.Error
}

// loadFailed gives an entry up whose history could not be read. The lock is held.
func (en *engine) loadFailed(e *entry, err error) {
	_, known := en.keyring.unread[e.id]
	if !known && !absent(err) { // it is tried again and again
		en.cfg.Logger.Error("task_unreadable", slog.Any("task", e.id), slog.Any("error", err))
	}
	en.abandon(e, err)
}

// abandon ends the loading of an entry; one that may be in the log is tried again. The lock is held.
func (en *engine) abandon(e *entry, err error) {
	turns := e.turns
	e.turns = nil
	delete(en.tasks, e.id)
	en.quota.uncount(e)
	for step := range e.calls.Leases {
		en.queue.drop(e, step)
	}
	if absent(err) {
		if e.open {
			en.keyring.leaveAllKeys(e.id)
		}
		en.keyring.wasRead(e.id)
		en.timers.clear(e.id)
	} else {
		en.keyring.unread[e.id] = unreadTask{open: e.open, err: fault.From(err)}
		en.timers.set(en.now().Add(catchUpAfter), e.id)
	}
	for _, fn := range turns {
		fn(nil, err)
	}
	e.notify()
}

// fold reads and folds the history of a task. It also returns the newest commit.
func (en *engine) fold(ctx context.Context, id events.TaskID) (*statemachine.Task, events.Stored, error) {
	task, newest := &statemachine.Task{}, events.Stored{}
	for stored, err := range en.cfg.Log.Read(ctx, id, 1) {
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
func (en *engine) noteDamage(id events.TaskID, err error) {
	if !unreadableHistory(err) {
		return
	}
	en.lock()
	defer en.unlock()
	switch {
	case en.loss != nil:
	case fault.Has(err, fault.NewerStore):
		en.loss = fault.Wrap(fault.NewerStore, err, "a newer orch has written the history of "+string(id)).
			WithHint("the log is read-only; use the newer orch")
		en.cfg.Logger.Error("log_newer", slog.Any("task", id), slog.Any("error", err))
	default:
		en.loss = fault.New(fault.DataLoss, "the history of %s is damaged: %s", id, fault.From(err).Message).
			WithHint("the log is read-only; run orch verify, and restore the data directory from a backup")
		en.cfg.Logger.Error("log_damaged", slog.Any("task", id), slog.Any("error", err))
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
func (en *engine) revive(e *entry) {
	en.listed.update(e)
	en.queue.reviveLeases(e)
	if e.task.State.Terminal() {
		en.reviveEnded(e)
		return
	}
	en.queue.queueReady(e)
	e.open = true
	en.quota.count(e, e.task.Submitted)
	en.quota.weigh(e)
	en.keyring.reviveKey(e)
	en.links.noteDelegated(e)
	en.queue.setTimer(e, en.now())
	if e.behind {
		en.timers.set(en.now().Add(catchUpAfter), e.id)
		return
	}
	en.catchUp(e)
	en.timers.set(en.now(), e.id) // whatever was decided but not yet followed up, such as a due timer
}

// reviveEnded follows the end of a task up when the answer to its last append was lost.
func (en *engine) reviveEnded(e *entry) {
	switch {
	case e.open:
		if c := e.task.Submitted.Concurrency; c != nil {
			e.key = c.Key
		}
		en.queue.queueReady(e)
		en.over(e)
		return
	case e.behind:
		en.queue.queueReady(e)
	default:
		en.timers.clear(e.id) // that of an earlier attempt to read it
		if !e.archived {
			en.dropCalls(e)
		}
	}
	en.followChildren(e, e.task) // single calls may have started some
	en.listed.whole = append(en.listed.whole, e.id)
}

// dropCalls cancels the single calls that no worker had when the node stopped, after the end of the task.
// Nobody waits for them any more, and to look at a task must not make a call. The lock is held.
func (en *engine) dropCalls(e *entry) {
	waits := func(s *statemachine.Step) bool {
		return s.State == statemachine.StepReady || s.State == statemachine.StepPending
	}
	if !slices.ContainsFunc(e.task.Order, func(key string) bool { return waits(e.task.Steps[key]) }) {
		return
	}
	en.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
		for _, key := range slices.Clone(t.Task.Order) {
			if waits(t.Task.Steps[key]) {
				t.Emit(events.StepCancelled, &events.Skipped{Step: key, Reason: "the node has stopped since the end of the task"})
			}
		}
		return nil
	}, ignore)
}

// catchUp asks about everything outside the task that may have changed unheard. The lock is held.
func (en *engine) catchUp(e *entry) {
	e.behind = false
	task := e.task
	en.awaitDependencies(e)
	if e.task == nil {
		return // what it heard could not be written: it is read again, and asks then
	}
	en.askParent(e)
	en.followChildren(e, task)
}

// followChildren makes sure that the children of running steps exist and that their ends are heard. The lock
// is held.
func (en *engine) followChildren(e *entry, task *statemachine.Task) {
	for _, key := range task.Order {
		if s := task.Steps[key]; e.task != nil && s.State == statemachine.StepRunning && s.Child != "" {
			en.followChild(e.id, s.Child)
		}
	}
}

// held reports whether the task is paused. A task that is being cancelled still runs its `always` steps.
func (e *entry) held() bool { return e.task.Paused && !e.task.Cancelling }
