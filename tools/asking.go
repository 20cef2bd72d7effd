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
	// MaxQuestions is how many questions a call may ask at once, MaxRounds how often it may ask or leave a note.
	MaxQuestions = 16
	MaxRounds    = 10
	// MaxNote bounds the bytes of a note; it has to stay below it.
	MaxNote = 16 << 10
	// MaxParams bounds the bytes of the parameters of a question; they have to stay below it.
	MaxParams = events.MaxInline
	maxKey    = 64
)

// Asking is the error of a call that needs answers before it can go on. Nothing of the call has happened then, or
// it may happen again: once all of the questions are answered, the tool is called again from its beginning,
// with all the answers so far. Meanwhile the call holds no worker.
type Asking struct { //nolint:errname // it ends an attempt of the call, and is no failure
	Questions []Question
	// Note is kept together with the questions, and comes back with their answers; nil for none. It says nothing about
	// whether the call may be made twice: that is what Noted is for.
	Note json.RawMessage
}

// Noted is the error of a call that has begun something elsewhere, which goes on without it. The note is made
// durable, and the tool is called again at once, from its beginning, with Env.Note. From then on the call only looks
// after what it has begun: it may be made any number of times, whatever the effect of the tool, and the loss of its
// worker leaves it in no doubt. What the attempt has recorded (Env.Record) is dropped.
type Noted struct { //nolint:errname // it ends an attempt of the call, and is no failure
	// Note is a JSON value other than null, of less than MaxNote bytes. Secrets in it are removed.
	Note json.RawMessage
}

// Error says that the call goes on.
func (n *Noted) Error() string { return "the call goes on elsewhere" }

// Check returns why the note cannot be kept: VALIDATION_ERROR.
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

// Question is one thing that a call wants to know.
type Question struct {
	// Key names the question in the call, which uses a key once.
	Key string `json:"key"`
	// Kind is events.Elicitation, events.Sampling or events.Roots.
	Kind string `json:"kind"`
	// Params are those of the MCP request, an object; none for an empty one.
	Params json.RawMessage `json:"params,omitempty"`
}

// Error says what is asked.
func (a *Asking) Error() string {
	keys := make([]string, len(a.Questions))
	for i, q := range a.Questions {
		keys[i] = q.Key
	}
	return "the call waits for answers to " + strings.Join(keys, ", ")
}

// Answer returns the MCP result that answers the question of a key, and whether it is answered. It is null for a
// sampling, or for roots, that were declined; a declined elicitation says so itself.
func (e *Env) Answer(key string) (json.RawMessage, bool) {
	answer, ok := e.Answers[key]
	return answer, ok
}

// Can reports whether there is a client that answers questions of a kind, as far as that was known when the task
// was submitted. A question that it cannot answer waits for a person at the command line.
func (e *Env) Can(kind string) bool {
	return e.Client != nil && slices.Contains(e.Client.Asks, kind)
}

// Check returns why the questions cannot be asked, or the note not be kept: VALIDATION_ERROR naming the field.
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

// UsedKey is the error of a call that asks two questions of one key.
func UsedKey(key string) error {
	return fault.New(fault.ValidationError, "the call has asked a question %q before", key).WithField("questions").
		WithHint("a call uses the key of a question once")
}

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

// isObject reports whether raw is a JSON object, or nothing at all.
func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &object) == nil && object != nil
}
