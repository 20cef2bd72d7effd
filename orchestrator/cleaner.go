package orchestrator

import (
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// cleaner validates data from clients and workers, and removes secrets before it is written.
type cleaner struct{ *core }

// cleanQuestions normalizes the questions of a call: compact, without secrets.
func (cl *cleaner) cleanQuestions(asked []work.Question) ([]work.Question, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	clean := make([]work.Question, len(asked))
	asking := &tools.Asking{Questions: make([]tools.Question, len(asked))}
	for i, q := range asked {
		params, err := cl.normalize(q.Params)
		if err != nil {
			return nil, fault.From(err).WithField("questions." + decide.Clip(q.Key))
		}
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		clean[i] = work.Question{Key: cl.rules.CleanText(q.Key), Kind: q.Kind, Params: params}
		asking.Questions[i] = tools.Question(clean[i])
		if err := checkParams(clean[i]); err != nil {
			return nil, fault.From(err).WithField("questions." + decide.Clip(q.Key) + "." + fault.From(err).Field)
		}
	}
	return clean, asking.Check()
}

// cleanNote normalizes a note: compact, without secrets.
func (cl *cleaner) cleanNote(note json.RawMessage) (json.RawMessage, error) {
	if len(note) == 0 {
		return nil, nil
	}
	clean, err := cl.normalize(note)
	if err != nil {
		return nil, fault.From(err).WithField("note")
	}
	return clean, (&tools.Noted{Note: clean}).Check()
}

// factKinds returns the kinds of events that a call may add to the log. None of them changes the state of a task or a step.
func factKinds() []events.Kind {
	return []events.Kind{events.FileRead, events.FileChanged, events.LogWritten, events.CheckpointCreated, events.CheckpointRestored, events.ApprovalRequested}
}

// cleanOutcome normalizes an outcome: compact, without secrets. Afterwards the facts contain their large values instead of
// references.
func (cl *cleaner) cleanOutcome(r *work.Outcome) error {
	var err error
	if r.Output, err = cl.normalize(r.Output); err != nil {
		return err
	}
	if r.Questions, err = cl.cleanQuestions(r.Questions); err != nil { // the tool is faulty; a retry would ask the same questions
		r.Questions, r.Error, r.Class = nil, fault.From(err), fault.ClassInvalidArgs
	}
	if r.Note, err = cl.cleanNote(r.Note); err != nil {
		r.Questions, r.Error, r.Class = nil, fault.From(err), fault.ClassInvalidArgs
	}
	if r.Error != nil {
		clean := *r.Error
		clean.Message, clean.Hint, clean.Field = cl.rules.CleanText(clean.Message), cl.rules.CleanText(clean.Hint), cl.rules.CleanText(clean.Field)
		clean.Reason, clean.Code = cl.rules.CleanText(clean.Reason), fault.Code(decide.Clip(cl.rules.CleanText(string(clean.Code))))
		r.Error, r.Class = &clean, decide.Clip(cl.rules.CleanText(r.Class))
	}
	if r.ApprovalRequest != nil {
		if r.ApprovalRequest, err = cl.cleanAsk(*r.ApprovalRequest); err != nil {
			return err
		}
	}
	size := 0
	r.Facts = slices.Clone(r.Facts)
	for i, f := range r.Facts {
		var n int
		if r.Facts[i], n, err = cl.cleanFact(f, r.Values); err != nil {
			return err
		}
		if size += n; size > work.MaxFacts {
			return fault.New(fault.ValidationError, "the facts of the call have more than %d bytes", work.MaxFacts).
				WithField("facts").WithReason("SIZE_LIMIT_EXCEEDED")
		}
	}
	return nil
}

// cleanAsk returns a worker's request for approval without secrets. It replaces unknown values of Type and Risk. Scopes are
// never changed: a scope with a secret is an error.
func (cl *cleaner) cleanAsk(ask work.ApprovalRequest) (*work.ApprovalRequest, error) {
	if len(ask.Impact) > maxNamed || len(ask.Scopes) > maxNamed {
		return nil, fault.New(fault.ValidationError, "the request for approval names more than %d targets", maxNamed).WithField("ask")
	}
	for _, scope := range ask.Scopes {
		if cl.rules.CleanText(scope) != scope {
			return nil, fault.New(fault.ValidationError, "what the request for approval would open is too long, or holds a secret").WithField("ask")
		}
	}
	if !slices.Contains([]string{policy.PreExecution, policy.Checkpoint, policy.DestructiveOperation}, ask.Type) {
		ask.Type = policy.PreExecution
	}
	if !slices.Contains([]string{"low", "medium", "high"}, ask.Risk) {
		ask.Risk = "high"
	}
	ask.Rule, ask.Reason, ask.ArgsSHA256 = cl.rules.CleanText(ask.Rule), cl.rules.CleanText(ask.Reason), decide.Clip(cl.rules.CleanText(ask.ArgsSHA256))
	ask.Impact = slices.Clone(ask.Impact)
	for i, name := range ask.Impact {
		ask.Impact[i] = cl.rules.CleanText(name)
	}
	return &ask, nil
}

// cleanFact returns a copy of a fact without secrets, and its size in bytes.
func (cl *cleaner) cleanFact(f events.Event, values map[string]json.RawMessage) (events.Event, int, error) {
	if !slices.Contains(factKinds(), f.Kind) || f.Data == nil {
		return f, 0, fault.New(fault.ValidationError, "a call cannot record an event %q", decide.Clip(string(f.Kind))).WithField("facts")
	}
	state, err := cl.stateIn(&f, values)
	if err != nil {
		return f, 0, err
	}
	data, err := json.Marshal(f)
	if err != nil {
		return f, 0, fault.Wrap(fault.ValidationError, err, "a fact of the call cannot be encoded").WithField("facts")
	}
	if clean, changed := cl.cfg.Redact(data); changed {
		if err := json.Unmarshal(clean, &f); err != nil {
			return f, 0, fault.Wrap(fault.ValidationError, err, "a fact of the call holds a secret").WithField("facts")
		}
	}
	if c, ok := f.Data.(*events.Checkpointed); ok {
		c.State = events.Inline(state)
	}
	return f, len(data) + len(state), nil
}

// stateIn removes the state data from a checkpoint and returns it. The data may be large or look like a reference. It returns
// nil for other facts.
func (cl *cleaner) stateIn(f *events.Event, values map[string]json.RawMessage) (json.RawMessage, error) {
	c, ok := f.Data.(*events.Checkpointed)
	if !ok {
		return nil, nil
	}
	raw := c.State.Raw
	if c.State.Ref() != "" {
		if raw, ok = values[c.State.Ref()]; !ok {
			return nil, fault.New(fault.ValidationError, "the value %s is not among those of the outcome", decide.Clip(c.State.Ref())).WithField("facts")
		}
	}
	stateless := *c
	stateless.State = events.Value{}
	f.Data = &stateless
	return cl.normalize(raw)
}

// cleanOutput redacts the output in heartbeats, in case the worker did not. It may be slow; mu must not be held.
func (cl *cleaner) cleanOutput(calls []work.CallHeartbeat) {
	for i := range calls {
		if out := calls[i].Output; out != nil {
			clean, _ := cl.cfg.Redact([]byte(out.Text))
			calls[i].Output = &work.Output{From: out.From, To: out.To, Text: string(clean)}
		}
	}
}

// checkSecrets returns an error if a plan uses secrets from sources that the operator does not allow, or if its submitter may
// not use secrets. A sub-plan was checked together with the outer plan.
func (cl *cleaner) checkSecrets(p *plan.Plan, r api.SubmitRequest, extra *submitExtra) error {
	sources := p.SecretSources()
	if len(sources) == 0 {
		return nil
	}
	byAgent := r.NoSecrets || decide.IsAgent(r.Actor) || r.KeysOf != "" || r.Session != "" || r.Client != nil && extra.parent == nil
	if byAgent || extra.parent != nil && extra.parent.Agent != "" || extra.delegated() {
		return api.ErrAgentSecrets()
	}
	i := slices.IndexFunc(sources, func(source string) bool { return !secret.Allowed(cl.cfg.Secrets, source) })
	if i >= 0 {
		return secret.NotAllowed(sources[i]).WithField("plan.secrets")
	}
	return nil
}

// normalize normalizes data from outside: compact JSON without secrets.
func (cl *cleaner) normalize(raw json.RawMessage) (json.RawMessage, error) {
	out, err := compact(raw)
	if err != nil {
		return nil, err
	}
	clean, _ := cl.cfg.Redact(out)
	return clean, nil
}
