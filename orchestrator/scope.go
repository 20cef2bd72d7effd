package orchestrator

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// scope is what expressions of a step can see.
func (t *reading) scope(in *item) plan.Scope {
	sc := plan.Scope{
		Inputs: t.fetch(t.task.Submitted.Inputs),
		Step:   func(id string) (plan.StepResult, bool) { return t.result(t.scopeKey(id, in)) },
		Task: plan.TaskInfo{
			ID: string(t.task.ID), Name: t.task.Submitted.Name, Attempt: 1, Created: plan.CreatedAt(createdAt(t.task)),
			Workspace: t.rules.workspace(t.task.ID), Root: t.rules.root,
		},
	}
	if in != nil {
		sc.Vars = map[string]json.RawMessage{
			in.node.As: t.fetch(in.value),
			"index":    json.RawMessage(strconv.Itoa(in.index)),
		}
	}
	return sc
}

// createdAt is when a task was submitted.
func createdAt(t *statemachine.Task) time.Time {
	if t.Submitted.Created != nil {
		return *t.Submitted.Created
	}
	return t.CreatedAt
}

// verifyScope adds the arguments of the doubtful call as `args`.
func (t *reading) verifyScope(key string, in *item) plan.Scope {
	sc := t.scope(in)
	vars := map[string]json.RawMessage{"args": t.fetch(t.task.Steps[key].Args)}
	maps.Copy(vars, sc.Vars)
	sc.Vars = vars
	return sc
}

// scopeKey returns the key of the step instance that an id means inside an item: a sibling first,
// then a step of the plan.
func (t *reading) scopeKey(id string, in *item) string {
	if in != nil {
		for _, child := range in.node.Children {
			if child.ID == id {
				return in.key(id)
			}
		}
	}
	return id
}

func (t *reading) nodeOf(id string, in *item) *plan.Node {
	if in != nil {
		for _, child := range in.node.Children {
			if child.ID == id {
				return child
			}
		}
	}
	return t.plan.program.Node(id)
}

// nodeByKey returns the node of a step instance, nil for calls that are not of the plan.
func (t *reading) nodeByKey(key string) *plan.Node {
	outer := itemOf(key)
	if outer == "" {
		return t.plan.program.Node(key)
	}
	each := t.plan.program.Node(outer)
	if each == nil {
		return nil
	}
	_, id, _ := strings.Cut(key, "].")
	return t.nodeOf(id, &item{node: each})
}

func (t *reading) result(key string) (plan.StepResult, bool) {
	s := t.task.Steps[key]
	if s == nil {
		return plan.StepResult{State: string(statemachine.StepPending)}, false
	}
	r := plan.StepResult{State: string(s.State), Output: t.fetch(s.Output), Attempts: s.Attempt}
	if s.Error != nil {
		r.Error = &plan.StepError{Code: string(s.Error.Code), Message: s.Error.Message}
	}
	return r, true
}

// blobTime bounds the reading and writing of one large value.
const blobTime = 30 * time.Second

// lost reports whether an error of the blob store means that the value will not come back.
func lost(err error) bool { return fault.Has(err, fault.NotFound) || fault.Has(err, fault.DataLoss) }

// unreadable is the error of what needs a large value that is lost.
func unreadable(err error) *fault.Error {
	return fault.Wrap(fault.DataLoss, err, "a large value is not in the blob store any more, or it is damaged").
		WithHint("orch doctor looks at the store")
}

func (o *Orchestrator) fetch(ctx context.Context, v events.Value) (json.RawMessage, error) {
	if v.Ref == "" {
		return v.Raw, nil
	}
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	return o.cfg.Blobs.Get(ctx, v.Ref)
}

// keep returns raw as a value of an event. Large values, and many small ones from maxCommit on, are
// stored before the commit, when the lock is free again.
func (t *turn) keep(raw json.RawMessage) events.Value {
	const smallest = 256 // a reference is about 100 bytes
	v := events.Inline(raw)
	if !v.MustOffload() && (len(raw) < smallest || t.inline+len(raw) <= maxCommit) {
		t.inline += len(raw)
		return v
	}
	v = events.Offloaded(raw)
	if !t.stopped() {
		t.blobs = append(t.blobs, raw)
		t.facts.remember(v.Ref, raw)
	}
	return v
}

// maxCommit bounds the bytes of values inside one commit; a message of the log has at most 8 MiB.
const maxCommit = 1 << 20

func (o *Orchestrator) keep(ctx context.Context, raw json.RawMessage) (events.Value, error) {
	v := events.Inline(raw)
	if !v.MustOffload() {
		return v, nil
	}
	ctx, stop := context.WithTimeout(ctx, blobTime)
	defer stop()
	ref, err := o.cfg.Blobs.Put(ctx, raw)
	if err != nil {
		return v, err
	}
	return events.Value{Ref: ref, Size: int64(len(raw))}, nil
}
