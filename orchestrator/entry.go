package orchestrator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/work"
)

// entry is a task in memory. While an append is in flight, task already contains the new events. All other requests for the
// task wait meanwhile, so that no client sees an event that is not durable.
type entry struct {
	owner *engine
	id    events.TaskID
	task  *statemachine.Task
	// plan is derived from the plan of the task.
	plan decide.Plan
	// seq is the position of the newest commit in the log.
	seq uint64
	// busy is set while an append or a load is in flight; turns queue up meanwhile.
	busy  bool
	turns []func(*entry, error)
	// archived is set if the history is in the archive.
	archived bool
	// imported says how the task was imported; nil for a task of this log. An imported task is only read.
	imported *api.ImportView
	// key is the concurrency key that the task holds or waits for.
	key string
	// open is set until the consequences of the end of the task have been applied. unsynced is set if consequences of an earlier
	// commit may be missing, because the log answered with an error.
	open, unsynced bool
	// paid is what the models have cost that the task has asked, with the most for answers that were lost.
	paid events.Spent
	// calls are the queued and the leased calls of the task.
	calls dispatch.Calls
	// changedAt is when the newest commit was made that is in the log.
	changedAt time.Time
	// progress maps the keys of running steps to their progress. version counts changes that watchers can see.
	progress map[string]work.Progress
	// output is the output of running calls, nil while nobody watches it.
	output  *shownOutput
	version uint64
	// changed is closed at the next change, ended at the end of the task. Both are nil while nobody waits.
	changed chan struct{}
	ended   chan struct{}
	// fetched holds the large values that the next turn needs. fetching is set while they are read.
	fetched  map[string]decide.Fetched
	fetching bool
	// shared are the open questions that the tasks above show (clientModel).
	shared []string
	// steps is the number of its steps that quota counts.
	steps int
	// counted is set while quota counts the task as an open task of share.
	counted bool
	share   string
}

func (en *engine) newEntry(id events.TaskID) *entry {
	return &entry{owner: en, id: id, calls: dispatch.Calls{Task: id}}
}

// setProgress stores the progress of a running call.
func (e *entry) setProgress(step string, p work.Progress) {
	if e.progress == nil {
		e.progress = map[string]work.Progress{}
	}
	e.progress[step] = p
}

// notify wakes all requests that wait for a change. mu must be held.
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

// change returns a channel that is closed at the next change. mu must be held.
func (e *entry) change() <-chan struct{} { return waitFor(&e.changed) }

// end returns a channel that is closed when the task has ended. mu must be held.
func (e *entry) end() <-chan struct{} { return waitFor(&e.ended) }

func waitFor(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

// withEntry runs fn with a task when no append or load is in flight for it, and loads the task first if necessary. fn receives
// an error if the task cannot be loaded, such as NOT_FOUND. mu must be held; it is also held while fn runs.
func (en *engine) withEntry(id events.TaskID, fn func(*entry, error)) {
	e := en.tasks[id]
	if e == nil {
		e = en.newEntry(id)
		e.open = en.concurrencyKeys.unread[id].open
		en.tasks[id] = e
		en.removeSleeper(e)
		en.load(e)
	}
	if e.busy {
		e.turns = append(e.turns, fn)
		return
	}
	fn(e, nil)
}

// runQueuedTurns runs the queued turns until one of them has an append in flight. mu must be held.
func (en *engine) runQueuedTurns(e *entry) {
	e.busy = false
	for !e.busy && len(e.turns) > 0 {
		fn := e.turns[0]
		e.turns = e.turns[1:]
		fn(e, nil)
	}
	if !e.busy {
		en.finished.evict(en.tasks)
	}
}

// load reads the history of an entry in the background. mu must be held.
func (en *engine) load(e *entry) {
	e.busy = true
	en.outbox = append(en.outbox, func() {
		en.background(func(ctx context.Context) { en.loadNow(ctx, e) }, func() { en.abandon(e, stopping()) })
	})
}

// maxLoads limits how many histories are read concurrently.
const maxLoads = 32

func (en *engine) loadNow(ctx context.Context, e *entry) {
	en.loads <- struct{}{}
	defer func() { <-en.loads }()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var missed []missedCommit
	var paid events.Spent
	task, newest, err := en.foldWith(ctx, e.id, func(m missedCommit) {
		paid = paid.Plus(sumOf(m.paid))
		if e.unsynced && m.seq > e.seq {
			missed = append(missed, m)
		}
	})
	var prog *plan.Program
	var noPlan *fault.Error
	en.recordDamage(e.id, err)
	if err == nil {
		if prog, err = en.compiler.program(ctx, task.Submitted); err != nil && !isTransient(err) {
			prog, noPlan, err = &plan.Program{}, unusablePlan(err), nil
		}
		if task.Part != nil && noPlan == nil && err == nil {
			prog = prog.Part(task.Part.Step)
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
	en.countMissed(missed)
	e.paid = paid
	e.task, e.seq, e.archived, e.plan = task, newest.Seq, e.archived || newest.Archived, decide.Plan{Program: prog, Unusable: noPlan}
	e.imported = importOf(newest)
	en.revive(e)
	clientModel{en}.share(e)
	e.notify() // the log may contain an append that it did not acknowledge
	en.concurrencyKeys.markRead(e.id)
	en.runQueuedTurns(e)
}

// unreadTask is a task whose history could not be read.
type unreadTask struct {
	// open is entry.open.
	open bool
	// err is why the history could not be read.
	err *fault.Error
}

// loadFailed removes an entry after its history could not be read. mu must be held.
func (en *engine) loadFailed(e *entry, err error) {
	_, known := en.concurrencyKeys.unread[e.id]
	if !known && !absent(err) { // only the first failure is logged
		en.cfg.Logger.Error("task_unreadable", slog.Any("task", e.id), slog.Any("error", err))
	}
	en.abandon(e, err)
}

// abandon removes an entry that is being loaded. A task that may be in the log is loaded again later. mu must be held.
func (en *engine) abandon(e *entry, err error) {
	turns := e.turns
	e.turns = nil
	delete(en.tasks, e.id)
	en.quota.uncount(e)
	for l := range e.calls.Leases.All() {
		en.queue.endLease(e, l.Step)
	}
	if absent(err) {
		en.people.forget(e.id)
		en.ledgers.forget(e.id)
		if e.open {
			en.concurrencyKeys.removeFromKeys(e.id)
		}
		en.concurrencyKeys.markRead(e.id)
		en.timers.clear(e.id)
	} else {
		en.concurrencyKeys.unread[e.id] = unreadTask{open: e.open, err: fault.From(err)}
		en.timers.set(en.now().Add(catchUpAfter), e.id)
	}
	for _, fn := range turns {
		fn(nil, err)
	}
	e.notify()
}

// fold reads the history of a task and computes its state. It also returns the newest commit.
func (en *engine) fold(ctx context.Context, id events.TaskID) (*statemachine.Task, events.Stored, error) {
	return en.foldWith(ctx, id, func(missedCommit) {})
}

// missedCommit is what a commit means for statistics and costs.
type missedCommit struct {
	seq   uint64
	calls []stats.Call
	paid  []costs.Cost
}

// foldWith is fold. It calls each with every commit.
func (en *engine) foldWith(ctx context.Context, id events.TaskID, each func(missedCommit)) (*statemachine.Task, events.Stored, error) {
	task, newest := &statemachine.Task{ID: id}, events.Stored{}
	for stored, err := range en.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return nil, newest, err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return nil, newest, err
		}
		if c.Task != id {
			return nil, newest, fault.New(fault.DataLoss, "the history of %s holds a commit of %s", id, c.Task)
		}
		m := missedCommit{seq: stored.Seq}
		if m.calls, m.paid, err = stats.Fold(task, c, stored.Data); err != nil {
			return nil, newest, err
		}
		each(m)
		newest = stored
	}
	if task.Rev == 0 {
		return nil, newest, noTask(id)
	}
	return task, newest, nil
}

// countMissed counts commits whose acknowledgements were lost. Whoever counts ignores those that it knows. mu must be held.
func (c *core) countMissed(all []missedCommit) {
	for _, m := range all {
		if c.cfg.Hooks.Committed != nil {
			c.cfg.Hooks.Committed(m.seq, m.calls, m.paid)
		}
	}
}

// recordDamage records in loss that the log has lost or changed data, if err means that. From then on nothing is appended,
// because further writes could destroy data that can still be recovered. mu must not be held.
func (en *engine) recordDamage(id events.TaskID, err error) {
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

// unreadableHistory reports whether an error means that this program can never read the history.
func unreadableHistory(err error) bool {
	return fault.Has(err, fault.DataLoss) || fault.Has(err, fault.NewerStore)
}

// absent reports whether an error means that there is no such task, or that it was removed.
func absent(err error) bool { return fault.Has(err, fault.NotFound) || fault.Has(err, fault.Gone) }

func noTask(id events.TaskID) error {
	return fault.New(fault.NotFound, "there is no task %s", id).WithField("id").
		WithHint("orch list shows the tasks")
}

// catchUpAfter is the delay before the node retries after an error of the log.
const catchUpAfter = time.Second

// revive restores the derived state of a task that was just loaded: queued calls, timers, concurrency keys and dependencies. mu
// must be held.
func (en *engine) revive(e *entry) {
	if e.imported != nil {
		en.finished.add(e)
		return
	}
	en.listed.loaded(e)
	en.people.update(e)
	en.ledgers.settle(e)
	en.queue.reviveLeases(e)
	if e.task.State.Terminal() {
		en.reviveEnded(e)
		return
	}
	en.queue.queueReady(e)
	e.open = true
	en.quota.count(e, e.task.Submitted)
	en.quota.countSteps(e)
	en.concurrencyKeys.reviveKey(e)
	en.links.addDelegated(e)
	en.queue.setTimer(e, en.now())
	if e.unsynced {
		en.timers.set(en.now().Add(catchUpAfter), e.id)
		return
	}
	en.catchUp(e)
	en.timers.set(en.now(), e.id) // decides about anything that is due
}

// reviveEnded applies the consequences of the end of a task if the answer to its last append was lost.
func (en *engine) reviveEnded(e *entry) {
	switch {
	case e.open:
		if c := e.task.Submitted.Concurrency; c != nil {
			e.key = c.Key
		}
		en.queue.queueReady(e)
		en.taskEnded(e)
		return
	case e.unsynced:
		en.queue.queueReady(e)
	default:
		en.timers.clear(e.id) // set by an earlier attempt to read the task
		if !e.archived {
			en.dropCalls(e)
		}
	}
	en.followChildren(e, e.task) // single calls may have started children
	en.finished.add(e)
}

// dropCalls cancels the single calls of an ended task that no worker held when the node stopped. Nobody waits for them any
// more, and reading a task must not cause a call. mu must be held.
func (en *engine) dropCalls(e *entry) {
	waits := func(s *statemachine.Step) bool {
		return s.State == statemachine.StepReady || s.State == statemachine.StepPending
	}
	if !slices.ContainsFunc(e.task.Live(), waits) {
		return
	}
	en.turn(e.id, decide.ActorNode, func(t *decide.Turn) error {
		for _, s := range t.Task.Live() {
			if waits(s) {
				t.Emit(events.StepCancelled, &events.Skipped{Step: s.Key, Reason: "the node has stopped since the end of the task"})
			}
		}
		return nil
	}, ignore)
}

// catchUp checks the dependencies, the parent and the children of a task, which may have changed while the task was not in
// memory. mu must be held.
func (en *engine) catchUp(e *entry) {
	e.unsynced = false
	task := e.task
	en.checkDependencies(e)
	if e.task == nil {
		return // the change could not be written; the task is loaded again and catches up then
	}
	en.checkParent(e)
	en.followChildren(e, task)
}

// followChildren calls followChild for the children of running steps, and for those whose costs are not recorded. mu must be held.
func (en *engine) followChildren(e *entry, task *statemachine.Task) {
	for _, s := range task.In(statemachine.StepRunning) {
		if e.task != nil && s.State == statemachine.StepRunning && s.Child != "" {
			en.followChild(e.id, s.Child)
			if s.Parallel > 0 && e.task != nil {
				en.parts().syncPart(e, s.Key)
			}
		}
	}
	for _, child := range uncharged(task) {
		en.followChild(e.id, child)
	}
}

// uncharged returns the children of the cancelled steps of an open task whose costs are not recorded.
func uncharged(task *statemachine.Task) (all []events.TaskID) {
	if task.State.Terminal() {
		return nil
	}
	for _, child := range sortedKeys(task.Children) {
		if task.StepState(task.Children[child]) == statemachine.StepCancelled {
			all = append(all, child)
		}
	}
	return all
}

// paused reports whether the task is paused. A task that is being cancelled still runs its `always` steps.
func (e *entry) paused() bool { return e.task.Paused && !e.task.Cancelling }
