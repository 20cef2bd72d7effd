package tools

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The limits of questions and notes.
const (
	// MaxQuestions limits the questions that a call asks at once. MaxRounds limits how often a call returns Asking or
	// Noted.
	MaxQuestions = 16
	MaxRounds    = 10
	// MaxNote is the size limit of a note in bytes, exclusive.
	MaxNote = 16 << 10
	// MaxParams is the size limit of the parameters of a question in bytes, exclusive.
	MaxParams = events.MaxInline
	maxKey    = 64
)

// Asking is the error that a tool returns when the call needs answers before it can continue. Once all questions are
// answered, the node calls the tool again from the start, with all answers so far. So before it returns Asking, the
// tool must have no effects, or only effects that may be repeated. A waiting call occupies no worker.
type Asking struct { //nolint:errname // it interrupts the call and does not report a failure
	Questions []Question
	// Note is stored with the questions and passed to the next attempt with their answers; nil for none. Unlike the
	// note of Noted, it does not mark the call as safe to repeat.
	Note json.RawMessage
}

// Noted is the error that a tool returns when the call has started work that continues elsewhere, such as on another
// server. The node makes the note durable, and calls the tool again immediately, from the start, with the note in
// Env.Note. From then on the call only follows that work. So the call may be repeated any number of times, whatever the
// effect of the tool, and it is not in doubt when its worker is lost. Facts that the attempt recorded (Env.Record) are
// dropped.
type Noted struct { //nolint:errname // it interrupts the call and does not report a failure
	// Note is a JSON value other than null, shorter than MaxNote bytes. Secrets in it are removed.
	Note json.RawMessage
}

// Error implements error.
func (n *Noted) Error() string { return "the call continues elsewhere" }

// Check returns VALIDATION_ERROR for a note that cannot be stored.
func (n *Noted) Check() error {
	switch {
	case len(n.Note) >= MaxNote:
		return fault.New(fault.ValidationError, "a note of a call has less than %d bytes", MaxNote).
			WithField("note").WithReason("SIZE_LIMIT_EXCEEDED")
	case !json.Valid(n.Note), string(bytes.TrimSpace(n.Note)) == "null":
		return fault.New(fault.ValidationError, "a note of a call is a JSON value, and not null").WithField("note")
	}
	return nil
}

// Question is one question of a call to the client or to a person.
type Question struct {
	// Key identifies the question within the call; it must be unique there.
	Key string `json:"key"`
	// Kind is events.Elicitation, events.Sampling or events.Roots.
	Kind string `json:"kind"`
	// Params are the parameters of the MCP request, an object; empty for none.
	Params json.RawMessage `json:"params,omitempty"`
}

// Error lists the keys of the questions.
func (a *Asking) Error() string {
	keys := make([]string, len(a.Questions))
	for i, q := range a.Questions {
		keys[i] = q.Key
	}
	return "the call waits for answers to " + strings.Join(keys, ", ")
}

// Answer returns the MCP result for the question with the key, and whether the question has been answered. For a
// declined sampling or roots request the result is null. For a declined elicitation it is a result with the action
// "decline" or "cancel".
func (e *Env) Answer(key string) (json.RawMessage, bool) {
	answer, ok := e.Answers[key]
	return answer, ok
}

// Can reports whether the client answers questions of the kind, as recorded when the task was submitted. If the client
// cannot answer a question, the question waits for a person at the command line.
func (e *Env) Can(kind string) bool {
	return e.Client != nil && slices.Contains(e.Client.Asks, kind)
}

// Check returns VALIDATION_ERROR, naming the field, for questions that cannot be asked or a note that cannot be
// stored.
func (a *Asking) Check() error {
	if len(a.Note) > 0 {
		if err := (&Noted{Note: a.Note}).Check(); err != nil {
			return err
		}
	}
	if n := len(a.Questions); n == 0 || n > MaxQuestions {
		return fault.New(fault.ValidationError, "a call asks 1 to %d questions at once, not %d", MaxQuestions, n).WithField("questions")
	}
	seen := map[string]bool{}
	for _, q := range a.Questions {
		if err := q.check(); err != nil {
			return err
		}
		if seen[q.Key] {
			return UsedKey(q.Key)
		}
		seen[q.Key] = true
	}
	return nil
}

// UsedKey is the error of a call that asks two questions with the same key.
func UsedKey(key string) error {
	return fault.New(fault.ValidationError, "the call has asked a question %q before", key).WithField("questions").
		WithHint("a call uses the key of a question once")
}

// check returns VALIDATION_ERROR for a question that cannot be asked.
func (q Question) check() error {
	field := "questions." + q.Key
	switch {
	case q.Key == "" || len(q.Key) > maxKey:
		return fault.New(fault.ValidationError, "the key of a question has 1 to %d bytes", maxKey).WithField("questions")
	case !slices.Contains([]string{events.Elicitation, events.Sampling, events.Roots}, q.Kind):
		return fault.New(fault.ValidationError, "the kind of a question is elicitation, sampling or roots").WithField(field)
	case len(q.Params) >= MaxParams:
		return fault.New(fault.ValidationError, "the parameters of a question have less than %d bytes", MaxParams).
			WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
	case events.Inline(q.Params).MustOffload() || !isObject(q.Params):
		return fault.New(fault.ValidationError, "the parameters of a question are an object").WithField(field)
	}
	return nil
}

// isObject reports whether raw is a JSON object or empty.
func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &object) == nil && object != nil
}
