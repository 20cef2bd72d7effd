package orchestrator

import (
	"container/list"
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// This file holds how decisions and views get at large values, which lie in the blob store: never while
// the lock is held. What needs one that is not in memory stops, lets go of the lock, and is done again
// when the value has been read.

const (
	// maxValues bounds the bytes of large values that are kept in memory in case they are asked for again.
	maxValues = 32 << 20
	// maxNeeded bounds the bytes of large values that one decision may need.
	maxNeeded = 64 << 20
)

// valueCache keeps the large values that were used last. It is safe for concurrent use.
type valueCache struct {
	mu    sync.Mutex
	size  int
	byRef map[string]*list.Element
	// order holds *kept, that used last in front.
	order list.List
}

type cachedValue struct {
	ref string
	raw json.RawMessage
}

func (v *valueCache) get(ref string) (json.RawMessage, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.byRef[ref]
	if at == nil {
		return nil, false
	}
	v.order.MoveToFront(at)
	k, ok := at.Value.(*cachedValue)
	return k.raw, ok
}

// put keeps a value; those that were not used for the longest time go.
func (v *valueCache) put(ref string, raw json.RawMessage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byRef[ref] != nil || len(raw) > maxValues/4 {
		return
	}
	if v.byRef == nil {
		v.byRef = map[string]*list.Element{}
	}
	v.byRef[ref] = v.order.PushFront(&cachedValue{ref, raw})
	for v.size += len(raw); v.size > maxValues; {
		if k, ok := v.order.Remove(v.order.Back()).(*cachedValue); ok {
			delete(v.byRef, k.ref)
			v.size -= len(k.raw)
		}
	}
}

// fetchedValue is what became of the search for a large value: it is there, or lost for good.
type fetchedValue struct {
	raw json.RawMessage
	err error
}

// bytesOf is the size of the values that were found.
func bytesOf(given map[string]fetchedValue) (n int64) {
	for _, f := range given {
		n += int64(len(f.raw))
	}
	return n
}

// fetch returns the JSON of a value. One that is not in memory stops the turn (see wanted), one that is
// lost leaves its error in t.lost; both are then nil here.
func (t *reading) fetch(v events.Value) json.RawMessage {
	if v.Ref == "" {
		return v.Raw
	}
	got, ok := t.given[v.Ref]
	if !ok {
		got.raw, ok = t.facts.recall(v.Ref)
	}
	switch {
	case ok && got.err == nil:
		return got.raw
	case ok && t.lost == nil:
		t.lost = unreadable(got.err)
	case ok:
	case t.needed+v.Size+bytesOf(t.given) > maxNeeded:
		t.lost = fault.New(fault.ValidationError, "this needs large values of more than %d MiB in all", maxNeeded>>20).
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let a tool put them into files, and pass on the paths")
	default:
		t.needed += v.Size
		t.wanted = append(t.wanted, v)
	}
	return nil
}

// outcomeOf returns the error of an evaluation: that of a lost value which it needed comes first, and what the
// evaluation has made is refused when it holds a secret, because no check of the plan can have seen that.
func (t *reading) outcomeOf(err error, made ...json.RawMessage) error {
	if missing := t.lost; missing != nil {
		t.lost = nil
		return missing
	}
	if err != nil {
		return t.rules.redacted(err)
	}
	for _, raw := range made {
		if rule, found := t.rules.findSecret(raw); found {
			return secretIn("", rule)
		}
	}
	return nil
}

// redacted takes the secrets out of what an error says.
func (r *rules) redacted(err error) error {
	said := fault.From(err)
	message, found := r.redact([]byte(said.Message))
	if !found {
		return err
	}
	clean := *said
	clean.Message = string(message)
	return &clean
}

// stopped reports whether a turn decides nothing more: it is void, or the rest of it comes later.
func (t *turn) stopped() bool { return t.err != nil || t.late || len(t.wanted) > 0 }

// search reads values from the blob store. The error is one that may pass. The lock is not held.
func (o *Orchestrator) search(ctx context.Context, wanted []events.Value) (map[string]fetchedValue, error) {
	results := make(map[string]fetchedValue, len(wanted))
	for _, v := range wanted {
		raw, err := o.fetch(ctx, v)
		if err != nil && !lost(err) {
			return nil, err
		}
		if err == nil {
			o.values.put(v.Ref, raw)
		}
		results[v.Ref] = fetchedValue{raw, err}
	}
	return results, nil
}

// viewer shows a task to clients. The lock is held.
type viewer struct {
	*reading

	e *entry
	// shown is the size of the values in the answer so far.
	shown int64
}

// see lets fn look at a task, again when it needed large values. fn runs with the lock held.
func (o *Orchestrator) see(ctx context.Context, id events.TaskID, fn func(*viewer) error) error {
	given := map[string]fetchedValue{}
	for {
		var missing []events.Value
		err := o.look(ctx, id, func(e *entry) error {
			v := &viewer{reading: o.read(e), e: e}
			maps.Copy(given, e.given)
			v.given = given
			err := v.outcomeOf(fn(v))
			if missing = v.wanted; len(missing) > 0 {
				return nil // it says nothing yet
			}
			return err
		})
		if err != nil || len(missing) == 0 {
			return err
		}
		more, err := o.search(ctx, missing)
		if err != nil {
			return err
		}
		maps.Copy(given, more)
	}
}

// goOn comes back to a turn whose rest waits for large values, or took too long. The lock is held.
func (o *Orchestrator) goOn(e *entry, t *turn) {
	if len(t.wanted) == 0 {
		e.given = nil
		if t.late {
			o.timers.set(o.now(), e.id)
		}
		return
	}
	if len(t.events) > 0 {
		e.given = nil // what they were needed for is decided
	}
	if e.searching {
		return
	}
	e.searching = true
	o.outbox = append(o.outbox, func() {
		o.background(func(ctx context.Context) { o.searchFor(ctx, e, t.wanted) }, func() { e.searching = false })
	})
}

func (o *Orchestrator) searchFor(ctx context.Context, e *entry, wanted []events.Value) {
	results, err := o.search(ctx, wanted)
	o.lock()
	defer o.unlock()
	e.searching = false
	if err != nil {
		o.timers.set(o.now().Add(catchUpAfter), e.id)
		return
	}
	if e.given == nil {
		e.given = map[string]fetchedValue{}
	}
	maps.Copy(e.given, results)
	if o.tasks[e.id] == e {
		o.wake(e.id)
	}
}

// show returns the JSON of a value for people, in place of a lost one its reference, and why. What does
// not fit into the answer is left out.
func (t *viewer) show(v events.Value) json.RawMessage {
	size := max(v.Size, int64(len(v.Raw)))
	if t.shown += size; t.shown > maxAnswer && size > maxAnswer/64 {
		t.shown -= size
		omitted := map[string]any{"$omitted": "the answer would be too large", "size": size}
		if v.Ref != "" {
			omitted["$blob"] = v.Ref
		}
		return mustJSON(omitted)
	}
	raw := t.fetch(v)
	if err := t.outcomeOf(nil); err != nil {
		return mustJSON(map[string]any{"$blob": v.Ref, "size": v.Size, "error": err})
	}
	return raw
}

// showLater is show for a value that was found under the lock, which is not held any more.
func (o *Orchestrator) showLater(ctx context.Context, v events.Value) (json.RawMessage, error) {
	if v.Ref == "" {
		return v.Raw, nil
	}
	if raw, ok := o.values.get(v.Ref); ok {
		return raw, nil
	}
	raw, err := o.fetch(ctx, v)
	if err != nil && lost(err) {
		return mustJSON(map[string]any{"$blob": v.Ref, "size": v.Size, "error": unreadable(err)}), nil
	}
	return raw, err
}
