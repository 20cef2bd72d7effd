package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// A form is shown field by field, with the choices. The list shows the text of a sampling.
func TestQuestionsAreReadable(t *testing.T) {
	t.Parallel()
	form := api.QuestionView{ID: "ASK_1", Kind: events.Elicitation, Status: statemachine.QuestionOpen, Params: json.RawMessage(`{
		"message": "Which?", "requestedSchema": {"type": "object", "required": ["pet"], "properties": {
			"pet": {"type": "string", "description": "Yours", "oneOf": [{"const": "c", "title": "Cat"}, {"const": "d", "title": "Dog"}]},
			"fish": {"type": "array", "items": {"anyOf": [{"const": "f1", "title": "Tuna"}]}},
			"size": {"type": "string", "enum": ["s", "l"], "default": "s"}
		}}}`)}
	lines := questionLines(form)
	assert.Contains(t, lines, "    message: Which?")
	assert.Contains(t, lines, "  form:")
	assert.Contains(t, lines, "    pet                string   required  Yours (c: Cat, d: Dog)")
	assert.Contains(t, lines, "    fish               array    (f1: Tuna)")
	assert.Contains(t, lines, `    size               string   ["s"] (s, l)`)
	assert.Contains(t, lines, "answer: orch answer ASK_1 --accept pet=… | --decline")

	model := api.QuestionView{Key: "sampling_1", Kind: events.Sampling, Params: json.RawMessage(`{"messages": [
		{"role": "user", "content": {"type": "text", "text": "Say hi"}}, {"role": "user", "content": [{"type": "text", "text": "Now"}]}]}`)}
	assert.Equal(t, "Now", message(model))
	model.Params = json.RawMessage(`{"messages": [{"role": "user", "content": {"type": "text", "text": "Say hi"}}]}`)
	assert.Equal(t, "Say hi", message(model))
	model.Params = json.RawMessage(`{"messages": []}`)
	assert.Equal(t, "sampling_1", message(model))
}
