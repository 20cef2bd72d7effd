package orchestrator

import (
	"container/list"
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// Decisions and views read large values from the blob store, but never with mu held. If a value is not in memory, the decision
// or view stops and releases mu. It is repeated when the value has been read.

// maxValues limits the bytes of cached large values.
const maxValues = 32 << 20

// blobStore reads and writes large values, which are stored outside the log.
type blobStore struct {
	*core

	values valueCache
}

// valueCache is an LRU cache of large values. It is safe for concurrent use.
type valueCache struct {
	mu    sync.Mutex
	size  int
	byRef map[string]*list.Element
	// order holds *cachedValue, the most recently used at the front.
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

// put adds a value and evicts the least recently used values. It ignores values that are too large for the cache.
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

// fetchAll reads values from the blob store, and returns them by reference. A lost value has an error in the result; the error
// of fetchAll is transient. mu must not be held.
func (bs *blobStore) fetchAll(ctx context.Context, wanted []events.Value) (map[string]decide.Fetched, error) {
	results := make(map[string]decide.Fetched, len(wanted))
	for _, v := range wanted {
		raw, err := bs.fetch(ctx, v)
		if err != nil && !lost(err) {
			return nil, err
		}
		if err == nil {
			bs.values.put(v.Ref(), raw)
		}
		results[v.Ref()] = decide.Fetched{Raw: raw, Err: err}
	}
	return results, nil
}

// viewer builds views of a task for clients. mu must be held.
type viewer struct {
	decide.Reading

	e *entry
	// shown is the size of the values in the answer so far, in bytes.
	shown int64
}

// view runs fn with a task. If fn needs large values that are not in memory, view reads them and runs fn again. fn runs with mu
// held.
func (en *engine) view(ctx context.Context, id events.TaskID, fn func(*viewer) error) error {
	fetched := map[string]decide.Fetched{}
	for {
		var missing []events.Value
		err := en.inspect(ctx, id, func(e *entry) error {
			v := &viewer{Reading: e.read(), e: e}
			maps.Copy(fetched, e.fetched)
			v.Values = fetched
			err := v.OutcomeOf(fn(v))
			if missing = v.Missing; len(missing) > 0 {
				return nil // the view is not complete yet
			}
			return err
		})
		if err != nil || len(missing) == 0 {
			return err
		}
		more, err := en.blobs.fetchAll(ctx, missing)
		if err != nil {
			return err
		}
		maps.Copy(fetched, more)
	}
}

// continueTurn schedules the rest of a turn that waits for large values, or took too long. mu must be held.
func (en *engine) continueTurn(e *entry, t *decide.Turn) {
	if len(t.Missing) == 0 {
		e.fetched = nil
		if t.Late {
			en.timers.set(en.now(), e.id)
		}
		return
	}
	if len(t.Events) > 0 {
		e.fetched = nil // the decision that needed these values is made
	}
	if e.fetching {
		return
	}
	e.fetching = true
	en.outbox = append(en.outbox, func() {
		en.background(func(ctx context.Context) { en.fetchMissing(ctx, e, t.Missing) }, func() { e.fetching = false })
	})
}

// fetchMissing reads the values that a turn needs, and wakes the task.
func (en *engine) fetchMissing(ctx context.Context, e *entry, wanted []events.Value) {
	results, err := en.blobs.fetchAll(ctx, wanted)
	en.lock()
	defer en.unlock()
	e.fetching = false
	if err != nil {
		en.timers.set(en.now().Add(catchUpAfter), e.id)
		return
	}
	if e.fetched == nil {
		e.fetched = map[string]decide.Fetched{}
	}
	maps.Copy(e.fetched, results)
	if en.tasks[e.id] == e {
		en.wake(e.id)
	}
}

// render returns the JSON of a value. For a lost value it returns the reference and the error. A value that does not fit into
// the answer is replaced by $omitted.
func (t *viewer) render(v events.Value) json.RawMessage {
	size := v.Len()
	if t.shown += size; t.shown > maxAnswer && size > maxAnswer/64 {
		t.shown -= size
		omitted := map[string]any{"$omitted": "the answer would be too large", "size": size}
		if v.Ref() != "" {
			omitted["$blob"] = v.Ref()
		}
		return decide.MustJSON(omitted)
	}
	raw := t.Fetch(v)
	if err := t.OutcomeOf(nil); err != nil {
		return decide.MustJSON(map[string]any{"$blob": v.Ref(), "size": v.Size(), "error": err})
	}
	return raw
}

// renderLater returns the JSON of a value like render, without its limit. It may read the value, so mu must not be held.
func (en *engine) renderLater(ctx context.Context, v events.Value) (json.RawMessage, error) {
	if v.Ref() == "" {
		return v.Raw, nil
	}
	if raw, ok := en.blobs.values.get(v.Ref()); ok {
		return raw, nil
	}
	raw, err := en.blobs.fetch(ctx, v)
	if err != nil && lost(err) {
		return decide.MustJSON(map[string]any{"$blob": v.Ref(), "size": v.Size(), "error": decide.Unreadable(err)}), nil
	}
	return raw, err
}

// blobTime limits the time to read or write one large value.
const blobTime = 30 * time.Second

// lost reports whether an error of the blob store means that the value is lost permanently.
func lost(err error) bool { return fault.Has(err, fault.NotFound) || fault.Has(err, fault.DataLoss) }

// fetch returns the JSON of a value. It reads large values from the blob store.
func (bs *blobStore) fetch(ctx context.Context, v events.Value) (json.RawMessage, error) {
	if v.Ref() == "" {
		return v.Raw, nil
	}
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	return bs.cfg.Blobs.Get(ctx, v.Ref())
}

// offload returns a value with the given JSON. If it is large, offload writes the JSON to the blob store, and the value
// contains only the reference.
func (bs *blobStore) offload(ctx context.Context, raw json.RawMessage) (events.Value, error) {
	v := events.Inline(raw)
	if !v.MustOffload() {
		return v, nil
	}
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	ref, err := bs.cfg.Blobs.Put(ctx, raw)
	if err != nil {
		return v, err
	}
	return events.InBlobs(ref, int64(len(raw))), nil
}
