package orchestrator

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/work"
)

// factKinds are the events that a call may add to the log: none that moves a task or a step.
func factKinds() []events.Kind {
	return []events.Kind{events.FileRead, events.FileChanged, events.LogWritten, events.CheckpointCreated, events.CheckpointRestored, events.ApprovalRequested}
}

// receive brings an outcome to the form of the log and stores its large values.
func (o *Orchestrator) receive(ctx context.Context, r *work.Outcome) (in decide.Received, err error) {
	if err = o.serving(); err != nil {
		return in, err
	}
	if err = o.clean(r); err != nil {
		return in, err
	}
	if in.Spawned, err = o.acceptSpawn(ctx, r); err != nil {
		return in, err
	}
	if in.Output, err = o.keep(ctx, r.Output); err != nil {
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
		clean.Message, clean.Hint, clean.Field = o.rules.CleanText(clean.Message), o.rules.CleanText(clean.Hint), o.rules.CleanText(clean.Field)
		clean.Reason, clean.Code = o.rules.CleanText(clean.Reason), fault.Code(decide.Clip(o.rules.CleanText(string(clean.Code))))
		r.Error, r.Class = &clean, decide.Clip(o.rules.CleanText(r.Class))
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
		if o.rules.CleanText(scope) != scope {
			return nil, fault.New(fault.ValidationError, "what the request for approval would open is too long, or holds a secret").WithField("ask")
		}
	}
	if !slices.Contains([]string{policy.PreExecution, policy.Checkpoint, policy.DestructiveOperation}, ask.Type) {
		ask.Type = policy.PreExecution
	}
	if !slices.Contains([]string{"low", "medium", "high"}, ask.Risk) {
		ask.Risk = "high"
	}
	ask.Rule, ask.Reason, ask.ArgsSHA256 = o.rules.CleanText(ask.Rule), o.rules.CleanText(ask.Reason), decide.Clip(o.rules.CleanText(ask.ArgsSHA256))
	ask.Impact = slices.Clone(ask.Impact)
	for i, name := range ask.Impact {
		ask.Impact[i] = o.rules.CleanText(name)
	}
	return &ask, nil
}

// cleanFact returns a fact without secrets, and its size in bytes. The fact is a copy.
func (o *Orchestrator) cleanFact(f events.Event, values map[string]json.RawMessage) (events.Event, int, error) {
	if !slices.Contains(factKinds(), f.Kind) || f.Data == nil {
		return f, 0, fault.New(fault.ValidationError, "a call cannot record an event %q", decide.Clip(string(f.Kind))).WithField("facts")
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
			return nil, fault.New(fault.ValidationError, "the value %s is not among those of the outcome", decide.Clip(c.State.Ref)).WithField("facts")
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
	shown.Message = o.rules.CleanText(shown.Message)
	if e.progress[p.Step] != shown {
		e.note(p.Step, shown)
		e.notify()
	}
}
