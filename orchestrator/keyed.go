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

// Several tasks can use the same idempotency key one after the other. They are the generations of the key. The id of a
// generation is computed from the key and the number of the generation, and a generation is created only after the previous one
// has released the key. So a search by number finds the newest generation with few lookups, and concurrent requests find the
// same task.

// scopeOf returns how long a task holds its key.
func scopeOf(p *plan.Plan, r api.SubmitRequest) string {
	if p.Idempotency != nil {
		return cmp.Or(r.IdempotencyScope, p.Idempotency.Scope)
	}
	return r.IdempotencyScope
}

// createdOf returns when a task was submitted, as expressions of its plan see it.
func createdOf(t *statemachine.Task) time.Time {
	if t.Submitted.Created != nil {
		return *t.Submitted.Created
	}
	return events.Time(t.CreatedAt)
}

// keyFree reports whether a new task may use the key: the former task e has released it, or was removed (err). A repetition of
// the same request still finds the former task, whatever its state.
func (sm *submitter) keyFree(s *submission, e *entry, err error) bool {
	switch {
	case s.payload.IdempotencyKey == "":
		return false
	case err != nil: // the scope of a removed task is not known; a scope that ends must have ended
		return fault.Has(err, fault.Gone) && s.payload.KeyScope != "" && s.payload.KeyScope != plan.ScopeForever
	case s.payload.Request != "" && s.payload.Request == e.task.Submitted.Request:
		return false
	}
	until, ends := keyReleasedAt(e.task)
	return ends && !sm.now().Before(until)
}

// keyReleasedAt returns when a task releases its key. It returns false if the time is not known yet, or if the task never
// releases it.
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
func (sm *submitter) afterReleased(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
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

// newestGeneration finds the number of the newest generation of a key, and calls found with it. Generation low exists. While
// growing is set, high is the next number to try, and the distance doubles each time. Afterwards generation high does not
// exist, and a binary search finds the newest one below it. mu must be held; it is also held when found is called.
func (sm *submitter) newestGeneration(s *submission, low, high int, growing bool, found func(int, error)) {
	if !growing && low+1 >= high {
		found(low, nil)
		return
	}
	at := high
	if !growing {
		at = low + (high-low)/2
	}
	sm.engine.withEntry(events.KeyedTaskIDAt(s.keysOf, s.payload.IdempotencyKey, at), func(_ *entry, err error) {
		switch {
		case err != nil && !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Gone):
			found(0, err)
		case fault.Has(err, fault.NotFound):
			sm.newestGeneration(s, low, at, false, found)
		case growing:
			sm.newestGeneration(s, at, at+2*(at-s.generation), true, found)
		default:
			sm.newestGeneration(s, at, high, false, found)
		}
	})
}

// errTaken returns the error for a request with the id or the idempotency key of a task that was submitted with a different
// plan or different inputs.
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
		return "orch redrive " + string(t.ID) + " continues it; different work needs a different key"
	}
	return "orch get " + string(t.ID)
}

// keyScopeText describes how long a task holds its key.
func keyScopeText(sub *events.Submitted) string {
	switch sub.KeyScope {
	case "":
		return "forever, unless it fails or is cancelled"
	case plan.ScopeForever:
		return "forever"
	case plan.ScopeUntilEnd:
		return "until it is over"
	default:
		return "for " + sub.KeyScope + " since it was submitted, and until it is over"
	}
}

// difference describes how two requests differ.
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
