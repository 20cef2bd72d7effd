package orchestrator

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/orchestrator/decide"
)

// known are the facts of a task, as its owner knows them. The lock is held.
type known struct {
	o *Orchestrator
	e *entry
	// began is when the decision has begun; zero for who only reads.
	began time.Time
}

// longTurn is how long a turn may take before the rest of it is left to the next one, so that others get at the lock.
const longTurn = 100 * time.Millisecond

func (k known) Wake(at time.Time) { k.o.timers.set(at, k.e.id) }

func (k known) Acquire() bool { return k.o.acquire(k.e) }

func (k known) Requester() string { return k.o.requester(k.e) }

func (k known) Holder(step string) (worker string, held bool) {
	if l := k.e.leases[step]; l != nil {
		return l.worker, true
	}
	return "", false
}

// untaken lets the time of a call begin anew after a pause.
func (k known) Untaken(step string, now time.Time) time.Duration {
	q := k.e.queued[step]
	if q == nil || q.within == 0 {
		return 0
	}
	if by := q.since.Add(q.within); now.Before(by) {
		k.Wake(by)
		return 0
	}
	if k.o.startBy(q).IsZero() {
		q.since = now
		k.Wake(now.Add(q.within))
		return 0
	}
	return q.within
}

func (k known) Recall(ref string) (json.RawMessage, bool) { return k.o.values.get(ref) }

func (k known) Remember(ref string, raw json.RawMessage) { k.o.values.put(ref, raw) }

func (k known) Tired() bool { return !k.began.IsZero() && time.Since(k.began) > longTurn }

// read is a task as it is now. The lock is held.
func (o *Orchestrator) read(e *entry) *decide.Reading {
	return &decide.Reading{Task: e.task, Plan: &e.plan, Rules: &o.rules, Facts: known{o: o, e: e}, Now: o.now(), Given: e.given}
}
