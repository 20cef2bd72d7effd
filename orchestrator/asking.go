package orchestrator

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// A call that asks questions is parked and dispatched again with the answers. No worker holds it meanwhile, and a restart
// changes nothing.

// answersOf returns the answered questions of the call of a step, and those that count as declined.
func answersOf(t *statemachine.Task, step string) []*statemachine.Question {
	var answered []*statemachine.Question
	for _, q := range t.Questions {
		if q.Step == step && (q.Answer != nil || decide.Declined(q)) {
			answered = append(answered, q)
		}
	}
	return answered
}

// fetchAnswers returns the answers to the questions of a call, by key.
func (bs *blobStore) fetchAnswers(ctx context.Context, answered []*statemachine.Question) (map[string]json.RawMessage, error) {
	if len(answered) == 0 {
		return nil, nil
	}
	answers := make(map[string]json.RawMessage, len(answered))
	for _, q := range answered {
		if q.Answer == nil {
			answers[q.Key] = declined(q.Kind)
			continue
		}
		raw, err := bs.fetch(ctx, q.Answer.Response)
		if err != nil {
			return nil, err
		}
		answers[q.Key] = raw
	}
	return answers, nil
}

// checkParams validates the MCP request of a question: VALIDATION_ERROR or REQUIRED_FIELD.
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
