package traces

import (
	"cmp"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// step applies an event of a step. Its span begins with its first event. Turns begin none: the answer that an agent waited for can be lost
// after its end.
func (f *Fold) step(at time.Time, key string, e events.Event) {
	s := f.steps[key]
	if s == nil && strings.HasPrefix(string(e.Kind), "turn.") {
		return
	}
	if s == nil {
		s = &step{span: &Span{ID: idOf(f.task, ofStep, key, 0), Parent: f.parentOf(key), Name: stepName(key), Kind: Internal, Start: at}}
		s.span.set("orch.step", key)
		f.steps[key] = s
	}
	switch d := e.Data.(type) {
	case *events.Ready:
		s.ready = d
	case *events.Called:
		f.called(at, key, s, d)
	case *events.Succeeded:
		f.endAttempt(at, s, d.Duration, "succeeded", nil)
		f.endStep(at, key, "succeeded")
	case *events.StepError:
		f.endAttempt(at, s, d.Duration, "failed", d.Error)
		s.span.fail(d.Error)
		f.endStep(at, key, "failed")
	case *events.Retrying:
		f.retrying(at, s, d)
	case *events.InDoubt:
		f.endAttempt(at, s, 0, "in_doubt", nil)
		s.span.note(at, string(e.Kind), reason(d.Reason)...)
	case *events.Resolved:
		f.resolved(at, key, s, d)
	case *events.Skipped:
		f.skipped(at, key, s, e.Kind, d)
	case *events.Reused:
		s.span.set("orch.reused_from", string(d.From))
		f.endStep(at, key, "succeeded")
	default:
		f.continued(at, s, e)
	}
}

// stepName returns the name of the span of a step: its key without the numbers of items, turns and calls, so that backends see the steps
// of a loop as one operation. each[2].read is each[].read, and review.t3.c1 is review.t.c.
func stepName(key string) string {
	agent, call := statemachine.SplitCall(key)
	inside := false
	name := strings.Map(func(r rune) rune {
		if r == '[' || r == ']' {
			inside = r == '['
		} else if inside {
			return -1
		}
		return r
	}, agent)
	if call == "" {
		return name
	}
	return name + "." + strings.Map(func(r rune) rune {
		if isDigit(r) {
			return -1
		}
		return r
	}, call)
}

// called begins the span of an attempt.
func (f *Fold) called(at time.Time, key string, s *step, d *events.Called) {
	start := d.At
	if start.IsZero() {
		start = at
	}
	span := &Span{ID: idOf(f.task, ofAttempt, key, d.Attempt), Parent: s.span.ID, Name: stepName(key), Kind: Client, Start: start}
	effect := d.Effect
	if r := s.ready; r != nil {
		span.Name, effect = r.Tool, cmp.Or(effect, r.Effect)
		span.set("orch.tool", r.Tool)
		span.set("orch.purpose", r.Purpose)
		if r.Approval != "" {
			span.Links = []SpanID{idOf(f.task, ofApproval, r.Approval, 0)}
		}
	}
	span.set("orch.attempt", d.Attempt)
	span.set("orch.worker", d.Worker)
	span.set("orch.effect", effect)
	s.attempt = span
}

// endAttempt ends the span of the running attempt. duration is how long the call took for its worker; 0 if that is not known.
func (f *Fold) endAttempt(at time.Time, s *step, duration time.Duration, outcome string, err *fault.Error) {
	if s.attempt == nil {
		return
	}
	s.attempt.set("orch.outcome", outcome)
	if err != nil {
		s.attempt.fail(err)
	}
	if duration > 0 {
		at = s.attempt.Start.Add(duration)
	}
	f.end(at, &s.attempt)
}

// endStep ends all spans of a step.
func (f *Fold) endStep(at time.Time, key, state string) {
	s := f.steps[key]
	if s == nil {
		return
	}
	f.endAttempt(at, s, 0, state, nil)
	f.end(at, &s.turn)
	s.span.set("orch.state", state)
	f.end(at, &s.span)
	delete(f.steps, key)
}

// retrying ends an attempt that another one follows. A result that does not yet satisfy the plan is no failure.
func (f *Fold) retrying(at time.Time, s *step, d *events.Retrying) {
	outcome := "failed"
	if d.Error == nil {
		outcome = "again"
	}
	f.endAttempt(at, s, d.Duration, outcome, d.Error)
	s.span.note(at, string(events.StepRetrying), Attribute{"orch.attempt", int64(d.Attempt)}, Attribute{"orch.next_at", d.At.UTC().Format(time.RFC3339Nano)})
}

// resolved applies a decision about a step in doubt.
func (f *Fold) resolved(at time.Time, key string, s *step, d *events.Resolved) {
	s.span.note(at, string(events.StepResolved), Attribute{"orch.resolved_as", d.As}, Attribute{"orch.by", d.By})
	switch d.As {
	case "retry":
		return
	case "failed":
		s.span.fail(nil)
		s.span.Message = d.Reason
	}
	f.endStep(at, key, d.As)
}

// skipped ends a step that was skipped or cancelled.
func (f *Fold) skipped(at time.Time, key string, s *step, kind events.Kind, d *events.Skipped) {
	_, state, _ := strings.Cut(string(kind), ".")
	s.span.set("orch.reason", d.Reason)
	f.endStep(at, key, state)
}

// continued applies an event after which the step continues.
func (f *Fold) continued(at time.Time, s *step, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Parked:
		f.endAttempt(at, s, 0, "asked", nil)
		s.span.note(at, string(e.Kind), Attribute{"orch.approval.id", d.Approval})
	case *events.Noted:
		f.endAttempt(at, s, 0, "continues elsewhere", nil)
	case *events.Spawned:
		f.endAttempt(at, s, 0, "spawned", nil)
		s.span.set("orch.child", string(d.Child))
	case *events.Expanded, *events.Divided, *events.Waiting:
		s.span.note(at, string(e.Kind))
	default:
		f.agent(at, s, e)
	}
}

// agent applies an event of an agent.
func (f *Fold) agent(at time.Time, s *step, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Agent:
		s.started = d
		s.span.set("gen_ai.operation.name", "invoke_agent")
		s.span.set("gen_ai.request.model", strings.Join(d.ModelNames(), ", "))
	case *events.Turn:
		f.asked(at, s, d)
	case *events.Answered:
		f.answered(at, s, d)
	case *events.RefusedTurn:
		if s.turn != nil {
			s.turn.Failed, s.turn.Message = true, "the request is too long for the model"
		}
		f.end(at, &s.turn)
	case *events.LostTurn:
		if s.turn != nil {
			s.turn.note(at, string(e.Kind), Attribute{"orch.attempt", int64(d.Attempt)})
		}
	default: // what people say, and more budget
		s.span.note(at, string(e.Kind))
	}
}

// asked begins the span of a turn, which lasts until the model has answered.
func (f *Fold) asked(at time.Time, s *step, d *events.Turn) {
	f.end(at, &s.turn)
	s.turn = &Span{ID: idOf(f.task, ofTurn, d.Step, d.Turn), Parent: s.span.ID, Name: "chat", Kind: Client, Start: at}
	s.turn.set("gen_ai.operation.name", "chat")
	s.turn.set("orch.turn", d.Turn)
	s.turn.set("orch.compaction", d.Summarizes > 0)
}

// answered ends the span of a turn. Its attributes are those of the semantic conventions for generative AI.
func (f *Fold) answered(at time.Time, s *step, d *events.Answered) {
	if s.turn == nil { // the turn of another task
		return
	}
	if s.started != nil {
		name := s.started.ModelOf(d)
		provider, model, found := strings.Cut(name, "/")
		if !found {
			provider, model = "", name
		}
		s.turn.Name = "chat " + model
		s.turn.set("gen_ai.provider.name", provider)
		s.turn.set("gen_ai.request.model", model)
	}
	s.turn.set("gen_ai.usage.input_tokens", d.Usage.Request())
	s.turn.set("gen_ai.usage.output_tokens", d.Usage.Output)
	s.turn.set("orch.cost.nano_usd", d.NanoUSD)
	s.turn.set("orch.stop", d.Stop)
	s.turn.set("orch.calls", d.Calls)
	f.end(at, &s.turn)
}
