package orchestrator

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/work"
)

// factKinds are the events that a call may add to the log: none that moves a task or a step.
func factKinds() []events.Kind {
	return []events.Kind{events.FileRead, events.LogWritten, events.CheckpointCreated, events.CheckpointRestored, events.ApprovalRequested}
}

// record adds a fact of a call to the history. A request for approval lets the task wait (S0-162).
func (t *turn) record(f events.Event) {
	a, ok := f.Data.(*events.Approval)
	if !ok {
		t.emit(f.Kind, f.Data)
		return
	}
	if owner, err := events.TaskOfApproval(a.ID); err != nil || owner != t.e.id || t.task.Approval(a.ID) != nil {
		return // nobody could decide about it
	}
	tool, digest := t.boundTo(a.Details)
	t.request(&events.Approval{
		ID: a.ID, Type: a.Type, Description: a.Description, Rationale: a.Rationale, Details: a.Details, Priority: a.Priority,
		Tool: tool, ArgsSHA256: digest, ExpiresAt: a.ExpiresAt, OnReject: onRejectFail, OnExpiry: onExpiryBlock,
	})
}

// boundTo returns the call that the details of a request name by `tool` and `arguments`, so that its grant
// lets this call through; none when they name no call of the catalogue.
func (t *turn) boundTo(details events.Value) (tool, digest string) {
	var named struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(details.Raw, &named) != nil {
		return "", ""
	}
	found, ok := t.o.cfg.Catalogue.Get(named.Tool)
	if !ok {
		return "", ""
	}
	args, err := found.Check(named.Arguments)
	if err == nil {
		digest, err = policy.Digest(named.Tool, args)
	}
	if err != nil {
		return "", ""
	}
	return named.Tool, digest
}

// received is what an outcome brings, in the form of the log.
type received struct {
	output  events.Value
	spawned *events.Spawned
}

// receive brings an outcome to the form of the log and stores its large values.
func (o *Orchestrator) receive(ctx context.Context, r *work.Outcome) (in received, err error) {
	if err = o.serving(); err != nil {
		return in, err
	}
	if err = o.clean(r); err != nil {
		return in, err
	}
	if in.spawned, err = o.acceptSpawn(ctx, r); err != nil {
		return in, err
	}
	if in.output, err = o.keep(ctx, r.Output); err != nil {
		return in, err
	}
	return in, o.keepFacts(ctx, r.Facts)
}

// clean brings what a worker says to the form of the log: compact, without secrets. The facts then hold
// their large values themselves.
func (o *Orchestrator) clean(r *work.Outcome) error {
	var err error
	if r.Output, err = o.tidy(r.Output); err != nil {
		return err
	}
	if r.Questions, err = o.cleanQuestions(r.Questions); err != nil { // its tool is wrong, and would ask the same again
		r.Questions, r.Error, r.Class = nil, fault.From(err), classInvalidArgs
	}
	if r.Error != nil {
		clean := *r.Error
		clean.Message, clean.Hint, clean.Field = o.cleanText(clean.Message), o.cleanText(clean.Hint), o.cleanText(clean.Field)
		r.Error = &clean
	}
	size := 0
	r.Facts = slices.Clone(r.Facts)
	for i, f := range r.Facts {
		var n int
		if r.Facts[i], n, err = o.cleanFact(f, r.Values); err != nil {
			return err
		}
		if size += n; size > work.MaxFacts {
			return fault.New(fault.ValidationError, "the facts of the call have more than %d bytes", work.MaxFacts).
				WithField("facts").WithReason("SIZE_LIMIT_EXCEEDED")
		}
	}
	return nil
}

// cleanFact returns a fact without secrets, and its size in bytes. The fact is a copy.
func (o *Orchestrator) cleanFact(f events.Event, values map[string]json.RawMessage) (events.Event, int, error) {
	if !slices.Contains(factKinds(), f.Kind) || f.Data == nil {
		return f, 0, fault.New(fault.ValidationError, "a call cannot record an event %q", clip(string(f.Kind))).WithField("facts")
	}
	state, err := o.stateIn(&f, values)
	if err != nil {
		return f, 0, err
	}
	data, err := json.Marshal(f)
	if err != nil {
		return f, 0, fault.Wrap(fault.ValidationError, err, "a fact of the call cannot be encoded").WithField("facts")
	}
	if clean, changed := o.cfg.Redact(data); changed {
		if err := json.Unmarshal(clean, &f); err != nil {
			return f, 0, fault.Wrap(fault.ValidationError, err, "a fact of the call holds a secret").WithField("facts")
		}
	}
	if c, ok := f.Data.(*events.Checkpointed); ok {
		c.State = events.Inline(state)
	}
	return f, len(data) + len(state), nil
}

// stateIn takes the state data out of a checkpoint, which may be large or look like a reference; nil for
// other facts.
func (o *Orchestrator) stateIn(f *events.Event, values map[string]json.RawMessage) (json.RawMessage, error) {
	c, ok := f.Data.(*events.Checkpointed)
	if !ok {
		return nil, nil
	}
	raw := c.State.Raw
	if c.State.Ref != "" {
		if raw, ok = values[c.State.Ref]; !ok {
			return nil, fault.New(fault.ValidationError, "the value %s is not among those of the outcome", clip(c.State.Ref)).WithField("facts")
		}
	}
	bare := *c
	bare.State = events.Value{}
	f.Data = &bare
	return o.tidy(raw)
}

// keepFacts stores the large values of facts that are clean.
func (o *Orchestrator) keepFacts(ctx context.Context, facts []events.Event) error {
	for _, f := range facts {
		c, ok := f.Data.(*events.Checkpointed)
		if !ok {
			continue
		}
		var err error
		if c.State, err = o.keep(ctx, c.State.Raw); err != nil {
			return err
		}
	}
	return nil
}
