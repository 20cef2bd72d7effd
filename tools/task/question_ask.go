package task

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type questionAskIn struct {
	Question string   `json:"question" jsonschema:"What to ask, with what a person needs to answer it" minLength:"1" maxLength:"4096"`
	Options  []string `json:"options,omitempty" jsonschema:"The possible answers, if there are only a few" minItems:"2" maxItems:"20"`
}

type questionAskOut struct {
	Status string `json:"status" jsonschema:"Whether the person has answered" enum:"answered,declined"`
	Answer string `json:"answer,omitempty" jsonschema:"The answer"`
}

// askedQuestion is the key of the question of a call.
const askedQuestion = "question"

// questionAsk is QUESTION_ASK: an agent asks a person. The question is one as of any other call: the client of the task may answer
// it, or a person with orch answer or on the page, and the waiting call occupies no worker. A person who declines is no error.
var questionAsk = tools.Define(tools.Spec{
	Name:        "QUESTION_ASK",
	Title:       "Ask a person a question",
	Purpose:     "Ask a person, and wait for the answer",
	Conditions:  []string{"Task state: IN_PROGRESS"},
	Example:     `{"question":"Which branch is the release made from?","options":["main","next"]}`,
	Effect:      tools.Idempotent,
	Gate:        tools.InProgress,
	Approval:    tools.NoApproval,
	Content:     []string{"question"},
	NoWorkspace: true,
	LogOnly:     true,
	Errors:      []string{"TIMEOUT", "SECRET_DETECTED", "VALIDATION_ERROR"},
}, func(_ context.Context, env *tools.Env, in questionAskIn) (questionAskOut, error) {
	raw, answered := env.Answer(askedQuestion)
	if !answered {
		return questionAskOut{}, &tools.Asking{Questions: []tools.Question{{Key: askedQuestion, Kind: events.Elicitation, Params: questionForm(in)}}}
	}
	var result struct {
		Action  string         `json:"action"`
		Content questionAskOut `json:"content"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return questionAskOut{}, fault.Wrap(fault.Internal, err, "the answer cannot be read")
	}
	if result.Action != "accept" {
		return questionAskOut{Status: "declined"}, nil
	}
	return questionAskOut{Status: "answered", Answer: result.Content.Answer}, nil
})

// questionForm returns the parameters of the request of MCP for an answer.
func questionForm(in questionAskIn) json.RawMessage {
	answer := map[string]any{"type": "string", "title": "Answer", "minLength": 1, "maxLength": 8192}
	if len(in.Options) > 0 {
		answer = map[string]any{"type": "string", "title": "Answer", "enum": in.Options}
	}
	params, _ := json.Marshal(map[string]any{ // texts can be encoded
		"message":         in.Question,
		"requestedSchema": map[string]any{"type": "object", "required": []string{"answer"}, "properties": map[string]any{"answer": answer}},
	})
	return params
}
