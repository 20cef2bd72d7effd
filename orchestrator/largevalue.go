package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"unicode/utf8"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Value implements api.Tasks. Only references in the events of the task lead to values: digests of values of other tasks do not.
func (rd *reader) Value(ctx context.Context, r api.ValueRequest) (api.ValueReply, error) {
	if r.Limit == 0 {
		r.Limit = api.MaxValuePart
	}
	if r.Limit < utf8.UTFMax || r.Limit > api.MaxValuePart {
		return api.ValueReply{}, fault.New(fault.ValidationError, "must be %d to %d", utf8.UTFMax, api.MaxValuePart).WithField("limit")
	}
	if err := rd.readable(ctx, r.ID); err != nil {
		return api.ValueReply{}, err
	}
	if err := rd.checkValue(ctx, r.ID, r.Ref); err != nil {
		return api.ValueReply{}, err
	}
	raw, err := rd.engine.blobs.large(ctx, r.Ref)
	if err != nil {
		return api.ValueReply{}, err
	}
	return partOf(raw, r)
}

// checkValue returns NOT_FOUND for a reference that the task does not have. For the parts of a value it reads the history once.
func (rd *reader) checkValue(ctx context.Context, id events.TaskID, ref string) error {
	if rd.known.has(id, ref) {
		return rd.checkExists(ctx, id)
	}
	found, err := hasValue(ctx, rd.cfg.Log, id, ref)
	switch {
	case err != nil:
		return err
	case found:
		rd.known.add(id, ref)
		return nil
	}
	if err := rd.checkExists(ctx, id); err != nil {
		return err
	}
	return fault.New(fault.NotFound, "the task has no such value").WithField("ref")
}

// knownValues are references that tasks have, as their histories say. It is safe for concurrent use.
type knownValues struct {
	mu   sync.Mutex
	refs map[knownValue]bool
}

// knownValue is a reference of a task.
type knownValue struct {
	task events.TaskID
	ref  string
}

// maxKnown limits the references in memory.
const maxKnown = 1000

func (k *knownValues) has(task events.TaskID, ref string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refs[knownValue{task, ref}]
}

// add adds a reference. When there are too many, it forgets the others.
func (k *knownValues) add(task events.TaskID, ref string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refs == nil || len(k.refs) >= maxKnown {
		k.refs = map[knownValue]bool{}
	}
	k.refs[knownValue{task, ref}] = true
}

// hasValue reports whether an event of a task has a reference.
func hasValue(ctx context.Context, log events.Log, id events.TaskID, ref string) (bool, error) {
	if ref == "" {
		return false, nil
	}
	for stored, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return false, err
		}
		if !bytes.Contains(stored.Data, []byte(ref)) {
			continue
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return false, err
		}
		for one := range c.Refs() {
			if one == ref {
				return true, nil
			}
		}
	}
	return false, nil
}

// large returns a large value. It keeps the value in memory for the following parts.
func (bs *blobStore) large(ctx context.Context, ref string) (json.RawMessage, error) {
	if raw, ok := bs.values.get(ref); ok {
		return raw, nil
	}
	raw, err := bs.fetch(ctx, events.InBlobs(ref, 0))
	if err == nil {
		bs.values.put(ref, raw)
	}
	return raw, err
}

// partOf returns a part of a value. It ends after a whole character.
func partOf(raw []byte, r api.ValueRequest) (api.ValueReply, error) {
	size := uint64(len(raw))
	if r.Offset > size {
		return api.ValueReply{}, fault.New(fault.ValidationError, "the value has %d bytes", size).WithField("offset")
	}
	part := raw[r.Offset:]
	reply := api.ValueReply{Ref: r.Ref, Size: size, Offset: r.Offset}
	if len(part) > r.Limit {
		end := r.Limit
		for end > r.Limit-utf8.UTFMax && !utf8.RuneStart(part[end]) {
			end--
		}
		part, reply.Next = part[:end], r.Offset+uint64(end) //nolint:gosec // end is positive
	}
	reply.Text = string(part)
	return reply, nil
}
