package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
)

// The tool that a test offers. It exists only there, and changes nothing.
const (
	testTool   = "WORD_OF_THE_DAY"
	testResult = "heron"
)

// useTool offers a tool, and asks the model to call it and to use its result.
func (t *modelTrial) useTool(ctx context.Context) error {
	t.steps.begin(stepTools)
	r := t.question("What is the word of the day in English? Call the tool " + testTool + " to find out. When you have its result, answer with that word alone.")
	r.Tools = []models.Tool{{
		Name: testTool, Description: "Returns the word of the day in a language",
		Schema: json.RawMessage(`{"type":"object","required":["language"],"properties":{"language":{"type":"string","description":"Name of the language, in English"}},"additionalProperties":false}`),
	}}
	answer, err := t.stream(ctx, r, nil)
	if err != nil {
		return err
	}
	call, problem := calledTool(answer)
	if problem != "" {
		return t.failed(fault.New(fault.ToolFailed, "the model %s %s; its answer: %s", t.name, problem, t.describe(answer)).
			WithHint("agents that have tools need another model, or a server that is set up for calls; --no-tools skips this step"))
	}
	t.steps.end(stepTools, "called "+call.Name+" with "+t.hidden(call.Args)+", stop: "+string(answer.Stop))

	t.steps.begin(stepResult)
	r.Messages = append(r.Messages, answer.Message, models.Message{Role: models.User, Parts: results(answer)})
	if answer, err = t.stream(ctx, r, nil); err != nil {
		return err
	}
	detail := "the answer uses it: "
	if !strings.Contains(strings.ToLower(t.describe(answer)), testResult) {
		detail = "the answer does NOT use it: "
	}
	t.steps.end(stepResult, detail+t.describe(answer))
	return nil
}

// calledTool returns the first call in an answer, and what is wrong with it, or "".
func calledTool(a models.Answer) (models.Call, string) {
	for _, p := range a.Message.Parts {
		if p.Call == nil {
			continue
		}
		var args struct {
			Language string `json:"language"`
		}
		switch {
		case p.Call.Name != testTool:
			return *p.Call, fmt.Sprintf("called %q, and not the tool that it has", p.Call.Name)
		case json.Unmarshal([]byte(p.Call.Args), &args) != nil || args.Language == "":
			return *p.Call, "called the tool with arguments that do not fit its schema: " + screen.Line(p.Call.Args)
		}
		return *p.Call, ""
	}
	return models.Call{}, "did not call the tool that it was asked to call"
}

// results returns a result for each call of an answer.
func results(a models.Answer) []models.Part {
	var parts []models.Part
	for _, p := range a.Message.Parts {
		if p.Call != nil {
			parts = append(parts, models.Part{Result: &models.Result{ID: p.Call.ID, Name: p.Call.Name, Content: testResult}})
		}
	}
	return parts
}
