package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// This file holds the questions of calls. A call that asks is put aside, whole, and handed out again with the
// answers: no worker holds it meanwhile, and a restart changes nothing.

// questionLife is how long a question waits for its answer.
const questionLife = time.Hour

// inquires reports whether a step waits for answers.
func inquires(s *statemachine.Step) bool {
	return s.State == statemachine.StepParked && len(s.Questions) > 0
}

// cleanQuestions brings what a call asks to the form of the log: compact, without secrets.
func (o *Orchestrator) cleanQuestions(asked []work.Question) ([]work.Question, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	clean := make([]work.Question, len(asked))
	asking := &tools.Asking{Questions: make([]tools.Question, len(asked))}
	for i, q := range asked {
		params, err := o.tidy(q.Params)
		if err != nil {
			return nil, fault.From(err).WithField("questions." + clip(q.Key))
		}
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		clean[i] = work.Question{Key: o.rules.cleanText(q.Key), Kind: q.Kind, Params: params}
		asking.Questions[i] = tools.Question(clean[i])
		if err := checkParams(clean[i]); err != nil {
			return nil, fault.From(err).WithField("questions." + clip(q.Key) + "." + fault.From(err).Field)
		}
	}
	return clean, asking.Check()
}

// inquire puts a call aside until what it asks is answered. Questions that it may not ask end it.
func (t *turn) inquire(s *statemachine.Step, r work.Outcome) {
	err := t.mayInquire(s, r.Questions)
	if notes(r) {
		t.keepNote(s, r.Note, false)
	}
	if err != nil {
		t.mayNot(s, err, r.Duration)
		return
	}
	ids := make([]string, len(r.Questions))
	for i, q := range r.Questions {
		ids[i] = events.QuestionIDFrom(t.task.ID, t.rules.entropy)
		t.emit(events.QuestionAsked, &events.Question{
			ID: ids[i], Step: s.Key, Key: q.Key, Kind: q.Kind, Params: events.Inline(q.Params), ExpiresAt: events.Time(t.now.Add(questionLife)),
		})
	}
	t.emit(events.StepParked, &events.Parked{Step: s.Key, Attempt: s.Attempt, Questions: ids})
}

// mayInquire returns why a call may not ask what it asks, nil when it may.
func (t *reading) mayInquire(s *statemachine.Step, asked []work.Question) *fault.Error {
	switch {
	case t.task.State.Terminal():
		return fault.New(fault.StateNotAllowed, "the task is %s: nobody can be asked any more", t.task.State)
	case s.Rounds >= tools.MaxRounds:
		return tooManyRounds("questions")
	}
	for _, before := range t.task.Questions {
		if before.Step == s.Key && slices.ContainsFunc(asked, func(q work.Question) bool { return q.Key == before.Key }) {
			return fault.From(tools.UsedKey(before.Key))
		}
	}
	return nil
}

// settleQuestions ends the questions that nobody answers any more, and lets calls go on that have their answers.
func (t *turn) settleQuestions() {
	if len(t.task.Questions) == 0 {
		return
	}
	for _, q := range slices.Clone(t.task.Questions) {
		if q.Status == statemachine.QuestionOpen && !t.stopped() {
			t.watchQuestion(q)
		}
	}
	for _, key := range slices.Clone(t.task.Order) {
		if s := t.task.Steps[key]; inquires(s) && !t.stopped() {
			t.settleRound(s)
		}
	}
}

// watchQuestion ends a question whose call is over, or whose time.
func (t *turn) watchQuestion(q *statemachine.Question) {
	s := t.task.Steps[q.Step]
	switch {
	case s == nil || !inquires(s):
		t.expireQuestion(q, "its call has ended")
	case t.task.State.Terminal(): // it is that of a single call
		t.expireQuestion(q, "the task is over")
	case !t.early(q.ExpiresAt):
		t.expireQuestion(q, "nobody answered in time")
	}
}

func (t *turn) expireQuestion(q *statemachine.Question, reason string) {
	t.emit(events.QuestionExpired, &events.Unanswered{ID: q.ID, Reason: reason, At: t.now})
}

// settleRound hands the call of a step out again when all of its questions are answered, and ends it when one of
// them never will be.
func (t *turn) settleRound(s *statemachine.Step) {
	open := false
	for _, id := range s.Questions {
		switch q := t.task.Question(id); {
		case q == nil || q.Status == statemachine.QuestionExpired:
			t.goOnAfterQuestion(s)
			t.emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: unanswered(id, q), Class: fault.ClassExpired})
			return
		case q.Status == statemachine.QuestionOpen:
			open = true
		}
	}
	if !open {
		t.goOnAfterQuestion(s)
		t.readyAgain(s, grantOf(t.task, s, t.now))
	}
}

// goOnAfterQuestion takes the task out of the block that the question may have led to. A single call never moves
// its task.
func (t *turn) goOnAfterQuestion(s *statemachine.Step) {
	if s.Purpose != purposeCall {
		t.activate()
	}
}

func unanswered(id string, q *statemachine.Question) *fault.Error {
	if q == nil {
		return fault.New(fault.Timeout, "the question %s is lost", id)
	}
	return fault.New(fault.Timeout, "question %s (%s) has no answer: %s", q.ID, q.Key, q.Reason)
}

// nextQuestion returns the first open question that a step waits for, nil when there is none.
func (t *reading) nextQuestion(s *statemachine.Step) *statemachine.Question {
	for _, id := range s.Questions {
		if q := t.task.Question(id); q != nil && q.Status == statemachine.QuestionOpen {
			return q
		}
	}
	return nil
}

// waitsForAnswer says which answer a step waits for.
func (t *reading) waitsForAnswer(s *statemachine.Step) string {
	q := t.nextQuestion(s)
	if q == nil {
		return "it goes on with the answers"
	}
	text := fmt.Sprintf("it waits for an answer to %s (%s, %s) until %s", q.ID, q.Kind, q.Key, clock(q.ExpiresAt))
	if n := len(s.Questions) - 1; n > 0 {
		text += fmt.Sprintf("; its call asks %d questions", n+1)
	}
	return text
}

// answersOf returns the answered questions of the call of a step.
func answersOf(t *statemachine.Task, step string) []*statemachine.Question {
	var answered []*statemachine.Question
	for _, q := range t.Questions {
		if q.Step == step && q.Answer != nil {
			answered = append(answered, q)
		}
	}
	return answered
}

// fetchAnswers returns the answers that a call is handed out with, by key.
func (o *Orchestrator) fetchAnswers(ctx context.Context, answered []*statemachine.Question) (map[string]json.RawMessage, error) {
	if len(answered) == 0 {
		return nil, nil
	}
	answers := make(map[string]json.RawMessage, len(answered))
	for _, q := range answered {
		raw, err := o.fetch(ctx, q.Answer.Response)
		if err != nil {
			return nil, err
		}
		answers[q.Key] = raw
	}
	return answers, nil
}

// checkParams returns why the MCP request of a question would be refused: VALIDATION_ERROR or REQUIRED_FIELD.
func checkParams(q work.Question) error {
	var p struct {
		Mode     string          `json:"mode"`
		Message  string          `json:"message"`
		Schema   json.RawMessage `json:"requestedSchema"`
		URL      string          `json:"url"`
		ID       string          `json:"elicitationId"`
		Messages []any           `json:"messages"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return fault.Wrap(fault.ValidationError, err, "the parameters are not those of MCP").WithField("params")
	}
	missing := func(field string) error { return fault.New(fault.RequiredField, "is required").WithField(field) }
	switch {
	case q.Kind == events.Sampling && len(p.Messages) == 0:
		return missing("messages")
	case q.Kind != events.Elicitation:
		return nil
	case p.Message == "":
		return missing("message")
	case p.Mode == "url" && p.URL == "":
		return missing("url")
	case p.Mode == "url" && p.ID == "":
		return missing("elicitationId")
	case p.Mode == "url":
		return nil
	case p.Mode != "" && p.Mode != "form":
		return fault.New(fault.ValidationError, "must be form or url").WithField("mode")
	case len(p.Schema) == 0:
		return missing("requestedSchema")
	}
	return plan.CheckRestricted(p.Schema)
}
