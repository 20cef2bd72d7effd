package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// QuestionStatus is how a question of a call stands.
type QuestionStatus string

// The statuses of a question. All but open are final.
const (
	QuestionOpen     QuestionStatus = "open"
	QuestionAnswered QuestionStatus = "answered"
	QuestionExpired  QuestionStatus = "expired"
)

// Question is the fold of the events of one question.
type Question struct {
	events.Question

	Status  QuestionStatus `json:"status"`
	AskedAt time.Time      `json:"asked_at"`
	// Answer is set when it is answered.
	Answer *events.Answer `json:"answer,omitempty"`
	// ClosedAt is when it came to its end, Reason why that was without an answer.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

// Question returns the question of an id, nil when the task has none such.
func (t *Task) Question(id string) *Question {
	for _, q := range t.Questions {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// Unanswered reports whether a question of the task is open.
func (t *Task) Unanswered() bool {
	for _, q := range t.Questions {
		if q.Status == QuestionOpen {
			return true
		}
	}
	return false
}

// inquire folds an event of a question; false when it is none.
func (t *Task) inquire(at time.Time, e events.Event) (bool, error) {
	switch d := e.Data.(type) {
	case *events.Question:
		if t.Question(d.ID) != nil {
			return true, fault.New(fault.StateNotAllowed, "question %s was asked before", d.ID)
		}
		t.Questions = append(t.Questions, &Question{Question: *d, Status: QuestionOpen, AskedAt: at})
		return true, nil
	case *events.Answer:
		return true, t.close(d.ID, func(q *Question) { q.Status, q.Answer, q.ClosedAt = QuestionAnswered, d, d.At })
	case *events.Unanswered:
		return true, t.close(d.ID, func(q *Question) { q.Status, q.Reason, q.ClosedAt = QuestionExpired, d.Reason, d.At })
	default:
		return false, nil
	}
}

// close ends an open question.
func (t *Task) close(id string, end func(*Question)) error {
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
