package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// doubtsOf returns a question for each call in doubt: its worker was lost, so that nobody knows whether the call has taken effect.
// A person decides.
func doubtsOf(t api.TaskView) []question {
	var list []question
	for _, step := range t.Steps {
		if step.State == statemachine.StepInDoubt {
			id := fmt.Sprintf("%s/%s/%d", t.ID, step.Key, step.Attempt)
			list = append(list, question{id: id, key: id, method: methodElicit, params: doubtForm(step), kind: doubt, task: t.ID, step: step.Key})
		}
	}
	return list
}

func doubtForm(step api.StepView) json.RawMessage {
	return mustJSON(object{
		"mode": "form",
		"message": fmt.Sprintf("The worker of %s was lost during the call (step %s). Nobody knows whether it has taken effect. Please look, and say.",
			step.Tool, step.Key),
		"requestedSchema": object{
			"type": "object",
			"properties": object{
				"outcome": object{
					"type": "string", "title": "What has happened",
					"description": "succeeded: it has taken effect; failed: it has not, and is given up; retry: it has not, make the call again",
					"enum":        []string{"succeeded", "failed", "retry"},
				},
				"reason": object{"type": "string", "title": "Reason", "description": "kept in the log", "maxLength": 1000},
			},
			"required": []string{"outcome"},
		},
	})
}

// decideDoubt decides a call in doubt according to a form. A declined form decides nothing.
func (qs *questioner) decideDoubt(ctx context.Context, c client, q question, response json.RawMessage) (bool, error) {
	var r struct {
		Action  string `json:"action"`
		Content struct {
			Outcome string `json:"outcome"`
			Reason  string `json:"reason"`
		} `json:"content"`
	}
	if err := json.Unmarshal(response, &r); err != nil {
		return false, fault.New(fault.ValidationError, "is not an answer to a form").WithField(q.key)
	}
	if r.Action != "accept" {
		return false, nil
	}
	if r.Content.Reason == "" {
		r.Content.Reason = "said in the MCP client"
	}
	_, err := qs.cfg.API.Resolve(ctx, api.ResolveRequest{
		ID: q.task, Step: q.step, As: r.Content.Outcome, Reason: r.Content.Reason, Actor: c.who.Name,
	})
	if fault.Has(err, fault.Conflict) || fault.Has(err, fault.StateNotAllowed) { // another decision was first
		return true, nil
	}
	return err == nil, err
}
