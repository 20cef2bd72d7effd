package orchestrator

import (
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// concurrencyKeys tracks which tasks hold the concurrency keys, and which wait for them.
type concurrencyKeys struct {
	*core

	keys map[string]*semaphore
	// unread holds the tasks whose histories could not be read. Any of them may hold a key.
	unread map[events.TaskID]unreadTask
	// entryOf returns a task that is in memory, else nil. wake wakes a task that a key is offered to.
	entryOf func(events.TaskID) *entry
	wake    func(events.TaskID)
}

func newConcurrencyKeys(c *core, entryOf func(events.TaskID) *entry, wake func(events.TaskID)) *concurrencyKeys {
	return &concurrencyKeys{core: c, keys: map[string]*semaphore{}, unread: map[events.TaskID]unreadTask{}, entryOf: entryOf, wake: wake}
}

// semaphore is the state of one concurrency key.
type semaphore struct {
	holders map[events.TaskID]bool
	waiting map[events.TaskID]bool
}

func (ck *concurrencyKeys) semaphore(key string) *semaphore {
	s := ck.keys[key]
	if s == nil {
		s = &semaphore{holders: map[events.TaskID]bool{}, waiting: map[events.TaskID]bool{}}
		ck.keys[key] = s
	}
	return s
}

// knowsHolders reports whether every task that may hold a concurrency key is known. It is false while the log is being read, or
// while an open task could not be read.
func (ck *concurrencyKeys) knowsHolders() bool { return ck.serving() == nil && len(ck.unread) == 0 }

// acquire acquires the concurrency key of a task if its limit allows that, and reports whether the task holds the key.
// Otherwise the task waits for the key.
func (ck *concurrencyKeys) acquire(e *entry) bool {
	c := e.task.Submitted.Concurrency
	if c == nil {
		return true
	}
	s := ck.semaphore(c.Key)
	e.key = c.Key
	if s.holders[e.id] {
		return true
	}
	if len(s.holders) >= c.Limit || !ck.knowsHolders() {
		s.waiting[e.id] = true
		return false
	}
	delete(s.waiting, e.id)
	s.holders[e.id] = true
	return true
}

// reviveKey restores the concurrency key of a loaded task from its history: the task holds the key if it has started. A task
// that acquired the key before keeps it even if its history shows no start: the append of the start returned an error, but may
// still reach the log. mu must be held.
func (ck *concurrencyKeys) reviveKey(e *entry) {
	c := e.task.Submitted.Concurrency
	if c == nil {
		return
	}
	e.key = c.Key
	s := ck.semaphore(c.Key)
	if e.begun() {
		s.holders[e.id] = true
	}
	if !s.holders[e.id] {
		ck.leaveQueue(e)
	}
}

// begun reports whether a step of the task's plan has ever started. The state of the task does not show that: a single call
// that needs an approval changes the state as well.
func (e *entry) begun() bool {
	if e.task.State == statemachine.Completed {
		return true
	}
	for _, s := range e.task.Steps {
		if startedStep(s) || s.Agent != nil && startedAgent(e.task, s) {
			return true
		}
	}
	return false
}

// startedAgent reports whether an agent step has started, and has not only taken over the turns of another task.
func startedAgent(t *statemachine.Task, s *statemachine.Step) bool {
	last := s.Agent.Last()
	if last == nil {
		return true
	}
	made := func(key string) bool { return t.Steps[key] != nil && t.Steps[key].Attempt > 0 }
	if last.Answered != nil {
		for call := range last.Answered.Calls {
			if made(statemachine.CallKey(s.Key, last.Requested.Turn, call+1)) {
				return true
			}
		}
	}
	return made(statemachine.ModelKey(s.Key, last.Requested.Turn))
}

// startedStep reports whether a step of the plan has started. Single calls and results that a retry reused do not count.
func startedStep(s *statemachine.Step) bool {
	switch {
	case s.Purpose != "", s.Agent != nil:
		return false
	case s.Divided != nil:
		return false // a retry continues it; its parts have started
	case s.Tool != "", s.Child != "", s.Approval != "", s.Signal != "", s.Items != nil:
		return true
	case s.State == statemachine.StepSucceeded:
		return s.Reason == "" // a value or a timer; a reused result has a reason
	default:
		return s.State == statemachine.StepRunning
	}
}

// releaseKey releases the concurrency key of a task, and offers it to the next waiting task. mu must be held.
func (ck *concurrencyKeys) releaseKey(e *entry) {
	if e.key == "" {
		return
	}
	s := ck.semaphore(e.key)
	delete(s.holders, e.id)
	delete(s.waiting, e.id)
	ck.offerKey(e.key)
}

// removeFromKeys removes a task that was never created from every key, because its first turn may have acquired one. It offers
// the keys to the next waiting tasks. mu must be held.
func (ck *concurrencyKeys) removeFromKeys(id events.TaskID) {
	for _, key := range sortedKeys(ck.keys) {
		s := ck.keys[key]
		delete(s.holders, id)
		delete(s.waiting, id)
		ck.offerKey(key)
	}
}

// leaveQueue removes a task that cannot start now from the waiting tasks of its concurrency key. A task that has not begun also
// releases the key. mu must be held.
func (ck *concurrencyKeys) leaveQueue(e *entry) {
	s := ck.keys[e.key]
	if s == nil {
		return
	}
	delete(s.waiting, e.id)
	if !e.begun() {
		delete(s.holders, e.id)
	}
	ck.offerKey(e.key)
}

// offerKey wakes the next waiting task if the key can be acquired. That task in turn offers the key to the next one. mu must be
// held.
func (ck *concurrencyKeys) offerKey(key string) {
	s := ck.keys[key]
	if s == nil {
		return
	}
	if len(s.holders) == 0 && len(s.waiting) == 0 {
		delete(ck.keys, key)
		return
	}
	next := ck.nextWaiting(s)
	if next == nil || !ck.knowsHolders() {
		return
	}
	delete(s.waiting, next.id)
	ck.wake(next.id)
}

// offerAllKeys offers each key to its next waiting task. mu must be held.
func (ck *concurrencyKeys) offerAllKeys() {
	for _, key := range sortedKeys(ck.keys) {
		ck.offerKey(key)
	}
}

// isUnread reports whether the history of a task could not be read and will be read again. mu must be held.
func (ck *concurrencyKeys) isUnread(id events.TaskID) bool {
	_, unread := ck.unread[id]
	return unread
}

// markRead records that a task was read, or does not exist. After the last unread task, keys can be acquired again. mu must be
// held.
func (ck *concurrencyKeys) markRead(id events.TaskID) {
	if !ck.isUnread(id) {
		return
	}
	if delete(ck.unread, id); len(ck.unread) == 0 {
		ck.offerAllKeys()
	}
}

// nextWaiting returns the waiting task that gets the key next: of the tasks that can acquire it, the one with the highest
// priority, and of equal priorities the oldest. Tasks that are being loaded are skipped; they acquire their key by themselves.
func (ck *concurrencyKeys) nextWaiting(s *semaphore) *entry {
	var best *entry
	for id := range s.waiting {
		e := ck.entryOf(id)
		room := e != nil && e.task != nil && len(s.holders) < e.task.Submitted.Concurrency.Limit
		if room && (best == nil || moreUrgent(e, best)) {
			best = e
		}
	}
	return best
}

// moreUrgent reports whether a comes before b: by priority, then by age.
func moreUrgent(a, b *entry) bool {
	pa, pb := work.Urgency(a.task.Submitted.Priority), work.Urgency(b.task.Submitted.Priority)
	if pa != pb {
		return pa < pb
	}
	if c := a.task.CreatedAt.Compare(b.task.CreatedAt); c != 0 {
		return c < 0
	}
	return a.id < b.id
}
