package orchestrator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// The tasks that used an idempotency key one after the other are its generations. The id of each follows from the key and the
// number of the generation. A generation is created only after the one before has released the key. So the newest one is found
// in few lookups, however many there are, and two concurrent requests find the same one.

// scopeOf returns how long a task holds its key.
func scopeOf(p *plan.Plan, r api.SubmitRequest) string {
	if p.Idempotency != nil {
		return cmp.Or(r.IdempotencyScope, p.Idempotency.Scope)
	}
	return r.IdempotencyScope
}

// createdOf returns when a task was submitted, as its plan sees it.
func createdOf(t *statemachine.Task) time.Time {
	if t.Submitted.Created != nil {
		return *t.Submitted.Created
	}
	return events.Time(t.CreatedAt)
}

// keyFree reports whether a new task may use the key: the task that held it has released it, or was removed (err). A
// repetition of the same request still finds the former task, whatever its state.
func (sm *submitter) keyFree(s *submission, e *entry, err error) bool {
	switch {
	case s.payload.IdempotencyKey == "":
		return false
	case err != nil: // it ended long ago; only a request that needs no more than that may use the key
		return fault.Has(err, fault.Gone) && s.payload.KeyScope != "" && s.payload.KeyScope != plan.ScopeForever
	case s.payload.Request != "" && s.payload.Request == e.task.Submitted.Request:
		return false
	}
	until, ends := keyReleasedAt(e.task)
	return ends && !sm.now().Before(until)
}

// keyReleasedAt returns when a task released its key. It returns false if that is not known yet, or never happens.
func keyReleasedAt(t *statemachine.Task) (time.Time, bool) {
	if !t.State.Terminal() {
		return time.Time{}, false
	}
	switch scope := t.Submitted.KeyScope; scope {
	case "":
		return time.Time{}, t.State != statemachine.Done
	case plan.ScopeForever:
		return time.Time{}, false
	case plan.ScopeUntilEnd:
		return time.Time{}, true
	default:
		d, err := plan.ParseScope(scope)
		return t.CreatedAt.Add(d), err == nil
	}
}

// afterReleased continues with the newest generation of the key, or creates the next one. mu must be held.
func (sm *submitter) afterReleased(s *submission, actor string, extra submitExtra, done func(api.SubmitReply, error)) {
	sm.newestGeneration(s, s.generation, s.generation+1, true, func(newest int, err error) {
		if err != nil {
			done(api.SubmitReply{}, err)
			return
		}
		if newest == s.generation {
			newest++
		}
		s.generation = newest
		s.id = events.KeyedTaskIDAt(s.keysOf, s.payload.IdempotencyKey, newest)
		sm.create(s, actor, extra, done)
	})
}

// newestGeneration finds the newest generation of a key. The generation with number is exists. While grows is set, not is the next
// number to try, with growing steps; afterwards not is known to be free, and a binary search finds the border. mu must be
// held; it is also held when found is called.
func (sm *submitter) newestGeneration(s *submission, is, not int, grows bool, found func(int, error)) {
	if !grows && is+1 >= not {
		found(is, nil)
		return
	}
	at := not
	if !grows {
		at = is + (not-is)/2
	}
	sm.engine.withEntry(events.KeyedTaskIDAt(s.keysOf, s.payload.IdempotencyKey, at), func(_ *entry, err error) {
		switch {
		case err != nil && !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Gone):
			found(0, err)
		case fault.Has(err, fault.NotFound):
			sm.newestGeneration(s, is, at, false, found)
		case grows:
			sm.newestGeneration(s, at, at+2*(at-s.generation), true, found)
		default:
			sm.newestGeneration(s, at, not, false, found)
		}
	})
}

// errTaken is the error of a request whose id or key belongs to a task with other work.
func (sm *submitter) errTaken(s *submission, t *statemachine.Task) error {
	differs := difference(t.Submitted, s.payload)
	if s.payload.IdempotencyKey == "" {
		return fault.New(fault.Conflict, "task %s exists (%s) and has %s", s.id, t.State, differs).WithField("id").WithHint("orch get %s", s.id)
	}
	return fault.New(fault.Conflict, "the idempotency key belongs to task %s (%s), which has %s", s.id, t.State, differs).
		WithField("idempotency_key").WithHint("it holds the key %s; %s", keyScopeText(t.Submitted), takenHint(t))
}

// takenHint returns the hint about a task that holds the key.
func takenHint(t *statemachine.Task) string {
	if (t.State == statemachine.Failed || t.State == statemachine.Cancelled) && t.Submitted.KeyScope == plan.ScopeForever {
		return "orch redrive " + string(t.ID) + " goes on with it, other work needs another key"
	}
	return "orch get " + string(t.ID)
}

// keyScopeText returns the words for how long a task holds its key.
func keyScopeText(sub *events.Submitted) string {
	switch sub.KeyScope {
	case "":
		return "for ever, unless it fails or is cancelled"
	case plan.ScopeForever:
		return "for ever"
	case plan.ScopeUntilEnd:
		return "until it is over"
	default:
		return "for " + sub.KeyScope + " since it was submitted, and until it is over"
	}
}

// difference returns in what two requests differ.
func difference(a, b *events.Submitted) string {
	if a.PlanSHA256 != b.PlanSHA256 {
		return "another plan"
	}
	var was, is map[string]json.RawMessage
	if json.Unmarshal(a.Inputs.Raw, &was) != nil || json.Unmarshal(b.Inputs.Raw, &is) != nil {
		return "other inputs"
	}
	names := slices.Sorted(maps.Keys(is))
	for name := range was {
		if is[name] == nil {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return bytes.Equal(was[name], is[name]) })
	slices.Sort(names)
	return "another value of " + strings.Join(names[:min(len(names), 5)], ", ") + " among its inputs"
}
