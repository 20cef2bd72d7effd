package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// QuestionStatus is the status of a question of a call.
type QuestionStatus string

// The statuses of a question. All but open are final.
const (
	QuestionOpen     QuestionStatus = "open"
	QuestionAnswered QuestionStatus = "answered"
	QuestionExpired  QuestionStatus = "expired"
)

// Question is the fold of one question's events.
type Question struct {
	events.Question

	Status  QuestionStatus `json:"status"`
	AskedAt time.Time      `json:"asked_at"`
	// Answer is set once the question is answered.
	Answer *events.Answer `json:"answer,omitempty"`
	// ClosedAt is when it was answered or expired. Reason is the reason of an expiry.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

// Question returns the question with an id, or nil if the task has none.
func (t *Task) Question(id string) *Question {
	for _, q := range t.Questions {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// HasOpenQuestion reports whether a question of the task is open.
func (t *Task) HasOpenQuestion() bool {
	for _, q := range t.Questions {
		if q.Status == QuestionOpen {
			return true
		}
	}
	return false
}

// applyQuestion folds an event of a question. It returns false for other events.
func (t *Task) applyQuestion(at time.Time, e events.Event) (bool, error) {
	switch d := e.Data.(type) {
	case *events.Question:
		if t.Question(d.ID) != nil {
			return true, fault.New(fault.StateNotAllowed, "question %s was asked before", d.ID)
		}
		t.Questions = append(t.Questions, &Question{Question: *d, Status: QuestionOpen, AskedAt: at})
		return true, nil
	case *events.Answer:
		return true, t.closeQuestion(d.ID, func(q *Question) { q.Status, q.Answer, q.ClosedAt = QuestionAnswered, d, d.At })
	case *events.Unanswered:
		return true, t.closeQuestion(d.ID, func(q *Question) { q.Status, q.Reason, q.ClosedAt = QuestionExpired, d.Reason, d.At })
	default:
		return false, nil
	}
}

// closeQuestion calls end with an open question, or returns STATE_NOT_ALLOWED.
func (t *Task) closeQuestion(id string, end func(*Question)) error {
	q := t.Question(id)
	switch {
	case q == nil:
		return fault.New(fault.StateNotAllowed, "the task has no question %s", id)
	case q.Status != QuestionOpen:
		return fault.New(fault.StateNotAllowed, "question %s is %s", id, q.Status)
	}
	end(q)
	return nil
}
