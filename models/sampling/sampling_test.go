package sampling_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/sampling"
)

func conversation() models.Request {
	return models.Request{
		Model: "claude", System: "Be brief.", MaxTokens: 100, Temperature: new(float64), NoCalls: true,
		Result: json.RawMessage(`{"type":"object"}`),
		Tools:  []models.Tool{{Name: "LOOK", Description: "Looks", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []models.Message{
			{Role: models.User, Parts: []models.Part{{Text: "Go."}, {Text: "Now."}}},
			{Role: models.Model, Parts: []models.Part{
				{Opaque: &models.Opaque{Wire: "anthropic", Data: json.RawMessage(`{}`)}},
				{Text: "I look."},
				{Call: &models.Call{ID: "a", Name: "LOOK", Args: `{"at":1}`}},
				{Call: &models.Call{ID: "b", Name: "odd name", Args: `no JSON`}},
			}},
			{Role: models.User, Parts: []models.Part{
				{Text: "And listen."}, {Result: &models.Result{ID: "a", Name: "LOOK", Content: "milk"}}, {Result: &models.Result{ID: "b", Content: "no", Failed: true}},
			}},
			{Role: models.Model, Parts: []models.Part{{Opaque: &models.Opaque{Wire: "anthropic", Data: json.RawMessage(`{}`)}}}},
			{Role: models.User, Parts: []models.Part{{Image: &models.Image{MIME: "image/png", Data: []byte("x")}}}},
		},
	}
}

// A request has the form of MCP: results of tools are alone in a message, and a message of one part is no list.
func TestParams(t *testing.T) {
	t.Parallel()
	raw, err := sampling.Params(conversation())
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"modelPreferences": {"hints": [{"name": "claude"}]}, "includeContext": "none", "maxTokens": 100, "temperature": 0,
		"systemPrompt": "Be brief.\n\nYour final answer is one JSON value, without a code block or other text around it, that is valid for this JSON Schema:\n{\"type\":\"object\"}",
		"tools": [{"name": "LOOK", "description": "Looks", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "none"},
		"messages": [
			{"role": "user", "content": {"type": "text", "text": "Go.\n\nNow."}},
			{"role": "assistant", "content": [
				{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "LOOK", "input": {"at": 1}},
				{"type": "tool_use", "id": "b", "name": "odd_name", "input": {"invalid_arguments": "no JSON"}}
			]},
			{"role": "user", "content": [
				{"type": "tool_result", "toolUseId": "a", "content": [{"type": "text", "text": "milk"}]},
				{"type": "tool_result", "toolUseId": "b", "content": [{"type": "text", "text": "no"}], "isError": true}
			]},
			{"role": "user", "content": {"type": "text", "text": "And listen."}},
			{"role": "assistant", "content": {"type": "text", "text": ""}},
			{"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "eA=="}}
		]
	}`, string(raw))
	assert.Equal(t, "claude", sampling.HintOf(raw))
}

// A conversation that is too long is refused before anybody is asked; an excerpt has the newest text, and no tools.
func TestLongConversations(t *testing.T) {
	t.Parallel()
	r := conversation()
	r.Messages = r.Messages[:3]
	raw, err := sampling.Excerpt(r, 2)
	require.NoError(t, err)
	assert.JSONEq(t, `{"modelPreferences": {"hints": [{"name": "claude"}]}, "includeContext": "none", "maxTokens": 100,
		"messages": [{"role": "user", "content": {"type": "text", "text": "no"}}]}`, string(raw))
	r.Messages[2].Parts[0], r.Messages[2].Parts[2] = r.Messages[2].Parts[2], r.Messages[2].Parts[0]
	r.Messages[2].Parts[2].Text = strings.Repeat("ä", sampling.MaxParams/2)
	raw, err = sampling.Excerpt(r, 3)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"ä…"`)
	_, err = sampling.Params(r)
	e, ok := errors.AsType[*models.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, models.TooLong, e.Kind)
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	text := func(s string) models.Part { return models.Part{Text: s} }
	for name, test := range map[string]struct {
		result string
		want   []models.Part
		stop   models.Stop
		err    string
	}{
		"a text":         {`{"content": {"type": "text", "text": "Milk."}, "model": "m", "stopReason": "endTurn"}`, []models.Part{text("Milk.")}, models.StopEnd, ""},
		"no reason":      {`{"content": [{"type": "text", "text": "Milk"}, {"type": "text", "text": "."}], "model": "m"}`, []models.Part{text("Milk.")}, models.StopEnd, ""},
		"cut off":        {`{"content": {"type": "text", "text": "Mi"}, "model": "m", "stopReason": "maxTokens"}`, []models.Part{text("Mi")}, models.StopLength, ""},
		"another reason": {`{"content": {"type": "text", "text": "Mi"}, "model": "m", "stopReason": "bored"}`, []models.Part{text("Mi")}, models.StopOther, ""},
		"an empty text":  {`{"content": {"type": "text", "text": ""}, "model": "m"}`, nil, models.StopEnd, ""},
		"calls": {
			`{"content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "LOOK", "input": {"at": 1}}, {"type": "tool_use", "name": "LOOK"}], "model": "m"}`,
			[]models.Part{text("I look."), {Call: &models.Call{ID: "call_3_1", Name: "LOOK", Args: `{"at": 1}`}}, {Call: &models.Call{ID: "call_3_2", Name: "LOOK"}}},
			models.StopCalls, "",
		},
		"a nameless call": {`{"content": {"type": "tool_use", "id": "x"}, "model": "m"}`, nil, "", "a call without a name"},
		"only an image":   {`{"content": {"type": "image", "data": "eA==", "mimeType": "image/png"}, "model": "m"}`, nil, "", "neither a text nor a call"},
		"nothing":         {`{"content": [], "model": "m"}`, nil, "", "neither a text nor a call"},
		"no content":      {`{"content": 7, "model": "m"}`, nil, "", "neither a text nor a call"},
		"no result":       {`[]`, nil, "", "neither a text nor a call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := conversation()
			got, err := sampling.Answer(r, json.RawMessage(test.result))
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, models.Answer{Message: models.Message{Role: models.Model, Parts: test.want}, Stop: test.stop, Model: "m"}, got)
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"sampling:": "", "sampling:claude-4.5": "claude-4.5", "sampling:gpt/5": "gpt/5"} {
		hint, err := sampling.ParseName(name)
		require.NoError(t, err)
		assert.Equal(t, want, hint)
		assert.True(t, sampling.Named(name))
	}
	for _, name := range []string{"sampling:a b", "sampling:" + strings.Repeat("x", 101)} {
		_, err := sampling.ParseName(name)
		require.Error(t, err)
	}
	assert.False(t, sampling.Named("openai/sampling:"))
}
