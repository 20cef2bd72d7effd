package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// factKinds are the events that a call may add to the log: none that moves a task or a step.
func factKinds() []events.Kind {
	return []events.Kind{events.FileRead, events.FileChanged, events.LogWritten, events.CheckpointCreated, events.CheckpointRestored, events.ApprovalRequested}
}

// record adds a fact of a call to the history. A request for approval lets the task wait (S0-162).
func (t *turn) record(f events.Event) {
	a, ok := f.Data.(*events.Approval)
	if !ok {
		t.emit(f.Kind, f.Data)
		return
	}
	if owner, err := events.TaskOfApproval(a.ID); err != nil || owner != t.task.ID || t.task.Approval(a.ID) != nil {
		return // nobody could decide about it
	}
	details := events.Inline(once(a.Details.Raw))
	tool, digest := t.boundTo(details.Raw)
	t.request(&events.Approval{
		ID: a.ID, Type: a.Type, Description: a.Description, Rationale: a.Rationale, Details: details, Priority: a.Priority,
		Tool: tool, ArgsSHA256: digest, ExpiresAt: a.ExpiresAt, OnReject: onRejectFail, OnExpiry: onExpiryBlock,
	})
}

// once writes every key of an object one time, so that people see what counts.
func once(raw json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	return mustJSON(v)
}

// boundTo returns the call that the details of a request name by `tool` and `arguments`, so that its grant
// lets this call through; none when they name no call of the catalogue.
func (t *reading) boundTo(details json.RawMessage) (tool, digest string) {
	var named map[string]json.RawMessage // a struct would take Arguments for arguments
	if json.Unmarshal(details, &named) != nil || json.Unmarshal(named["tool"], &tool) != nil {
		return "", ""
	}
	found, ok := t.rules.catalogue.Get(tool)
	if !ok {
		return "", ""
	}
	args, err := found.Check(named["arguments"])
	if err == nil {
		digest, err = policy.Digest(tool, args)
	}
	if err != nil {
		return "", ""
	}
	return tool, digest
}

// received is what an outcome brings, in the form of the log.
type received struct {
	output  events.Value
	spawned *events.Spawned
	// lent is the grant of the session of the task that lets the call through, nil for none.
	lent *statemachine.Approval
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
		r.Questions, r.Error, r.Class = nil, fault.From(err), fault.ClassInvalidArgs
	}
	if r.Note, err = o.cleanNote(r.Note); err != nil {
		r.Questions, r.Error, r.Class = nil, fault.From(err), fault.ClassInvalidArgs
	}
	if r.Error != nil {
		clean := *r.Error
		clean.Message, clean.Hint, clean.Field = o.rules.cleanText(clean.Message), o.rules.cleanText(clean.Hint), o.rules.cleanText(clean.Field)
		clean.Reason, clean.Code = o.rules.cleanText(clean.Reason), fault.Code(clip(o.rules.cleanText(string(clean.Code))))
		r.Error, r.Class = &clean, clip(o.rules.cleanText(r.Class))
	}
	if r.Ask != nil {
		if r.Ask, err = o.cleanAsk(*r.Ask); err != nil {
			return err
		}
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

// maxNamed bounds how many targets and paths a request for approval names.
const maxNamed = 1000

// cleanAsk returns a request of a worker as it may be shown to people: without secrets, and in known words. What its
// grant would open is taken literally or not at all.
func (o *Orchestrator) cleanAsk(ask work.Ask) (*work.Ask, error) {
	if len(ask.Impact) > maxNamed || len(ask.Scopes) > maxNamed {
		return nil, fault.New(fault.ValidationError, "the request for approval names more than %d targets", maxNamed).WithField("ask")
	}
	for _, scope := range ask.Scopes {
		if o.rules.cleanText(scope) != scope {
			return nil, fault.New(fault.ValidationError, "what the request for approval would open is too long, or holds a secret").WithField("ask")
		}
	}
	if !slices.Contains([]string{policy.PreExecution, policy.Checkpoint, policy.DestructiveOperation}, ask.Type) {
		ask.Type = policy.PreExecution
	}
	if !slices.Contains([]string{"low", "medium", "high"}, ask.Risk) {
		ask.Risk = "high"
	}
	ask.Rule, ask.Reason, ask.ArgsSHA256 = o.rules.cleanText(ask.Rule), o.rules.cleanText(ask.Reason), clip(o.rules.cleanText(ask.ArgsSHA256))
	ask.Impact = slices.Clone(ask.Impact)
	for i, name := range ask.Impact {
		ask.Impact[i] = o.rules.cleanText(name)
	}
	return &ask, nil
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

// showProgress keeps what a heartbeat says of a running call. The lock is held.
func (o *Orchestrator) showProgress(e *entry, p work.CallHeartbeat) {
	if p.Progress == nil {
		return
	}
	shown := *p.Progress
	shown.Message = o.rules.cleanText(shown.Message)
	if e.progress[p.Step] != shown {
		e.note(p.Step, shown)
		e.notify()
	}
}
