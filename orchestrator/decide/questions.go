package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// questionLife is the time after which an open question expires.
const questionLife = time.Hour

// ask parks a call until its questions are answered. Questions that are not allowed fail the call.
func (t Questions) ask(s *statemachine.Step, r *work.Outcome) {
	err := t.checkAsk(s, r.Questions)
	if continues(r) {
		t.Attempts().recordNote(s, r.Note, false)
	}
	if err != nil {
		t.Attempts().failInvalid(s, err, r.Duration)
		return
	}
	ids := make([]string, len(r.Questions))
	for i, q := range r.Questions {
		ids[i] = events.QuestionIDFrom(t.Task.ID, t.Rules.Entropy)
		t.Emit(events.QuestionAsked, &events.Question{
			ID: ids[i], Step: s.Key, Key: q.Key, Kind: q.Kind, Params: events.Inline(q.Params), ExpiresAt: events.Time(t.Now.Add(questionLife)),
		})
	}
	t.Emit(events.StepParked, &events.Parked{Step: s.Key, Attempt: s.Attempt, Questions: ids})
}

// checkAsk returns why a call must not ask its questions, or nil if it may.
func (t Questions) checkAsk(s *statemachine.Step, asked []work.Question) *fault.Error {
	switch {
	case t.Task.State.Terminal():
		return fault.New(fault.StateNotAllowed, "the task is %s: nobody can be asked any more", t.Task.State)
	case s.Rounds >= tools.MaxRounds:
		return tooManyRounds("questions")
	}
	for _, before := range t.Task.Questions {
		if before.Step == s.Key && slices.ContainsFunc(asked, func(q work.Question) bool { return q.Key == before.Key }) {
			return fault.From(tools.UsedKey(before.Key))
		}
	}
	return nil
}

// resolveQuestions expires questions that are due, and continues calls when all their questions are answered.
func (t Questions) resolveQuestions() {
	if len(t.Task.Questions) == 0 {
		return
	}
	for _, q := range slices.Clone(t.Task.Questions) {
		if q.Status == statemachine.QuestionOpen && !t.stopped() {
			t.expireIfDue(q)
		}
	}
	for _, s := range t.Task.In(statemachine.StepParked) {
		if WaitsForAnswers(s) && !t.stopped() {
			t.resumeIfAnswered(s)
		}
	}
}

// expireIfDue expires a question if its call has ended or its time has passed.
func (t Questions) expireIfDue(q *statemachine.Question) {
	s := t.Task.Steps[q.Step]
	switch {
	case s == nil || !WaitsForAnswers(s):
		t.expireQuestion(q, "its call has ended")
	case t.Task.State.Terminal(): // the question of a single call
		t.expireQuestion(q, "the task is over")
	case !t.notYet(q.ExpiresAt):
		t.expireQuestion(q, "nobody answered in time")
	}
}

func (t Questions) expireQuestion(q *statemachine.Question, reason string) {
	t.Emit(events.QuestionExpired, &events.Unanswered{ID: q.ID, Reason: reason, At: t.Now})
}

// resumeIfAnswered makes the call of a step ready again when all of its questions are answered, and fails it when one of them
// has expired, unless another model can answer instead.
func (t Questions) resumeIfAnswered(s *statemachine.Step) {
	open := false
	for _, id := range s.Questions {
		switch q := t.Task.Question(id); {
		case q != nil && Declined(q) && t.hasOtherModels(s): // the call asks them
		case q == nil || q.Status == statemachine.QuestionExpired:
			t.unblock(s)
			t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: unanswered(id, q), Class: fault.ClassExpired})
			return
		case q.Status == statemachine.QuestionOpen:
			open = true
		}
	}
	if !open {
		t.unblock(s)
		t.Approvals().readyAgain(s, GrantOf(t.Task, s, t.Now))
	}
}

// Declined reports whether a question to the model of a client has expired. The call that asks it is made again only if it can do
// without the answer.
func Declined(q *statemachine.Question) bool {
	return q.Kind == events.Sampling && q.Status == statemachine.QuestionExpired
}

// hasOtherModels reports whether a call asks the model of an agent that has more than one.
func (t Questions) hasOtherModels(s *statemachine.Step) bool {
	return AsksModel(s) && len(t.Attempts().agentOf(s).Agent.Spec.Models) > 1
}

// unblock unblocks the task if a question has blocked it. A single call never changes the state of its task.
func (t Questions) unblock(s *statemachine.Step) {
	if s.Purpose != PurposeCall {
		t.activate()
	}
}

func unanswered(id string, q *statemachine.Question) *fault.Error {
	if q == nil {
		return fault.New(fault.Timeout, "the question %s is lost", id)
	}
	e := fault.New(fault.Timeout, "question %s (%s) has no answer: %s", q.ID, q.Key, q.Reason)
	if q.Kind == events.Sampling {
		e = e.WithHint("the MCP client that made the task must answer in time: make the task again from a client that does")
	}
	return e
}

// NextQuestion returns the first open question of a step, or nil if there is none.
func (t *Reading) NextQuestion(s *statemachine.Step) *statemachine.Question {
	for _, id := range s.Questions {
		if q := t.Task.Question(id); q != nil && q.Status == statemachine.QuestionOpen {
			return q
		}
	}
	return nil
}

// WaitsForAnswer returns a sentence about the answer that a step waits for.
func (t *Reading) WaitsForAnswer(s *statemachine.Step) string {
	q := t.NextQuestion(s)
	if q == nil {
		return "it continues with the answers"
	}
	text := fmt.Sprintf("it waits for an answer to %s (%s, %s) until %s", q.ID, q.Kind, q.Key, Clock(q.ExpiresAt))
	if n := len(s.Questions) - 1; n > 0 {
		text += fmt.Sprintf("; its call asks %d questions", n+1)
	}
	return text
}

// NoQuestion returns the error for an unknown question.
func NoQuestion(id string) error {
	return fault.New(fault.NotFound, "there is no question %s", Clip(id)).WithField("question").WithHint("orch questions lists them")
}

// Answer records the answer to a question.
func (t Questions) Answer(q *statemachine.Question, action string, response json.RawMessage) {
	t.Emit(events.QuestionAnswered, &events.Answer{ID: q.ID, By: t.Actor, Action: action, Response: t.value(response), At: t.Now})
}

// MayAnswer returns why a question cannot be answered, or nil: NOT_FOUND, or CONFLICT if it was answered or has expired.
func (t Questions) MayAnswer(q *statemachine.Question, id string) error {
	switch {
	case q == nil:
		return NoQuestion(id)
	case q.Status == statemachine.QuestionAnswered:
		return fault.New(fault.Conflict, "%s has answered question %s at %s", q.Answer.By, q.ID, Clock(q.ClosedAt))
	case q.Status == statemachine.QuestionExpired:
		return fault.New(fault.Conflict, "question %s is closed since %s: %s", q.ID, Clock(q.ClosedAt), q.Reason)
	case !t.Now.Before(q.ExpiresAt):
		return fault.New(fault.Conflict, "question %s expired at %s", q.ID, Clock(q.ExpiresAt))
	}
	return nil
}
