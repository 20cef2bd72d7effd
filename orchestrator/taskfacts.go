package orchestrator

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
)

// taskFacts implements decide.Facts for an entry. mu must be held.
type taskFacts entry

// longTurn is how long a turn may take. Then the rest is left to the next turn, so that other goroutines can acquire mu.
const longTurn = 100 * time.Millisecond

// Wake implements decide.Facts.
func (k *taskFacts) Wake(at time.Time) { k.owner.timers.set(at, k.id) }

// Acquire implements decide.Facts.
func (k *taskFacts) Acquire() bool { return k.owner.concurrencyKeys.acquire((*entry)(k)) }

// Requester implements decide.Facts.
func (k *taskFacts) Requester() string { return k.owner.requester((*entry)(k)) }

// Holder implements decide.Facts.
func (k *taskFacts) Holder(step string) (worker string, held bool) {
	if l := k.calls.Leases.Get(step); l != nil {
		return l.Worker, true
	}
	return "", false
}

// Ledgers implements decide.Facts.
func (k *taskFacts) Ledgers() ([]decide.Ledger, bool) { return k.owner.ledgers.of((*entry)(k)) }

// Above implements decide.Facts.
func (k *taskFacts) Above() ([]decide.Ledger, bool) {
	if k.task.Submitted.Parent == nil {
		return nil, true
	}
	all, known := tree(k.owner.tasks).above((*entry)(k))
	return all, known && closed(k.owner.ready)
}

// Children implements decide.Facts.
func (k *taskFacts) Children() map[events.TaskID]events.Spent {
	costs := map[events.TaskID]events.Spent{}
	for child := range k.task.Children {
		if c := k.owner.tasks[child]; c != nil {
			if u, known := tree(k.owner.tasks).used(c); known {
				costs[child] = u.spent.Plus(u.held)
			}
		}
	}
	return costs
}

// AwaitLedgers implements decide.Facts.
func (k *taskFacts) AwaitLedgers(now time.Time) {
	k.owner.ledgers.await(k.id)
	k.Wake(now.Add(ledgerPause))
}

// Overdue implements decide.Facts. While the call is paused, each deadline that passes starts the waiting time again.
func (k *taskFacts) Overdue(step string, now time.Time) time.Duration {
	q := k.calls.Queued.Get(step)
	if q == nil || q.MaxWait == 0 {
		return 0
	}
	if by := q.Since.Add(q.MaxWait); now.Before(by) {
		k.Wake(by)
		return 0
	}
	if k.owner.queue.startBy(q).IsZero() {
		q.Since = now
		k.Wake(now.Add(q.MaxWait))
		return 0
	}
	return q.MaxWait
}

// Limit implements decide.Facts.
func (k *taskFacts) Limit(step string) string {
	limit, _, limited := k.owner.queue.dispatcher.LimitOf(k.calls.Queued.Get(step))
	if !limited {
		return ""
	}
	return limit.String()
}

// CachedValue implements decide.Facts.
func (k *taskFacts) CachedValue(ref string) (json.RawMessage, bool) {
	return k.owner.blobs.values.get(ref)
}

// CacheValue implements decide.Facts.
func (k *taskFacts) CacheValue(ref string, raw json.RawMessage) { k.owner.blobs.values.put(ref, raw) }

// TimeUp implements decide.Facts.
func (k *taskFacts) TimeUp() bool { return time.Since(k.owner.turnStarted) > longTurn }

// read returns the current state of the task for a decision or a view. mu must be held.
func (e *entry) read() decide.Reading {
	o := e.owner
	return decide.Reading{Task: e.task, Plan: &e.plan, Rules: &o.rules, Facts: (*taskFacts)(e), Now: o.now(), Values: e.fetched}
}

// nodeOf returns the plan node of a step, or nil for a call that is not in the plan. mu must be held.
func (e *entry) nodeOf(step string) *plan.Node {
	r := decide.Reading{Task: e.task, Plan: &e.plan}
	return r.NodeByKey(step)
}
