package events

import (
	"encoding/base32"
	"io"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The kinds of the events of questions. A call asks questions while it runs. A question is open until it is answered or
// expires.
const (
	QuestionAsked    Kind = "question.asked"
	QuestionAnswered Kind = "question.answered"
	// QuestionExpired closes a question without an answer: nobody answered in time, or its call has ended.
	QuestionExpired Kind = "question.expired"
)

// The kinds of questions, named as in MCP.
const (
	// Elicitation asks a person (S2-052), Sampling asks a language model of the client (S2-051), Roots asks for the
	// folders that the client exposes (S2-050).
	Elicitation = "elicitation"
	Sampling    = "sampling"
	Roots       = "roots"
)

// SamplingTools is an ability of a client, and no kind of question: it accepts tools in questions of the kind Sampling.
const SamplingTools = "sampling.tools"

// Question is the data of question.asked.
type Question struct {
	ID string `json:"id"`
	// Step is the key of the step whose call waits for the answer.
	Step string `json:"step"`
	// Key names the question within its call; it is unique there.
	Key string `json:"key"`
	// Kind is elicitation, sampling or roots.
	Kind string `json:"kind"`
	// Params are the parameters of the MCP request.
	Params    Value     `json:"params,omitzero"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Answer is the data of question.answered.
type Answer struct {
	ID string `json:"id"`
	By string `json:"by"`
	// Action is accept, decline or cancel for an elicitation, and decline for any other question that was declined.
	Action string `json:"action,omitempty"`
	// Response is the MCP result; null for a sampling or for roots that were declined.
	Response Value     `json:"response,omitzero"`
	At       time.Time `json:"at"`
}

// Unanswered is the data of question.expired.
type Unanswered struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func (*Question) payload()   {}
func (*Answer) payload()     {}
func (*Unanswered) payload() {}

const questionPrefix = "ASK_"

// QuestionIDFrom returns a new question id for a task: "ASK_", the ULID of the task, and eight random characters from
// entropy, which must not fail. TaskOfQuestion returns the task in the id.
func QuestionIDFrom(task TaskID, entropy io.Reader) string {
	return partID(questionPrefix, task, entropy)
}

// TaskOfQuestion returns the task that a question belongs to, or INVALID_FORMAT for an invalid id.
func TaskOfQuestion(id string) (TaskID, error) {
	task, ok := taskOfPart(questionPrefix, id)
	if !ok {
		return "", fault.New(fault.InvalidFormat, "%q is not an id of a question", id[:min(len(id), 60)]).WithField("question").
			WithHint("orch questions lists them")
	}
	return task, nil
}

// partID returns an unguessable id for something that belongs to a task.
func partID(prefix string, task TaskID, entropy io.Reader) string {
	var random [5]byte
	if _, err := io.ReadFull(entropy, random[:]); err != nil {
		panic("no entropy: " + err.Error())
	}
	return prefix + strings.TrimPrefix(string(task), TaskPrefix) + "_" + base32.StdEncoding.EncodeToString(random[:])
}

// taskOfPart returns the task in an id that partID returned.
func taskOfPart(prefix, id string) (TaskID, bool) {
	body, ok := strings.CutPrefix(id, prefix)
	task, random, found := strings.Cut(body, "_")
	parsed, err := ParseTaskID(TaskPrefix + task)
	return parsed, ok && found && err == nil && len(random) == 8
}
