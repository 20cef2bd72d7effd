package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/anthropic"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/models/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func opaque(data string) models.Part {
	return models.Part{Opaque: &models.Opaque{Wire: anthropic.Wire, Data: json.RawMessage(data)}}
}

func kit() modelstest.Kit {
	return modelstest.Kit{
		Wire: modelstest.Anthropic, New: func(c wire.Config) models.Provider { return anthropic.New(c) }, Malformed: true,
		Opaque: []models.Part{
			opaque(`{"type":"thinking","thinking":"First I read – then I answer.","signature":"c2lnbmF0dXJl"}`),
			opaque(`{"data":"cmVkYWN0ZWQ=","type":"redacted_thinking"}`),
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	modelstest.Run(t, kit())
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	call := models.Part{Call: &models.Call{ID: "toolu_1", Name: "FILE_READ", Args: `{"path":"a"}`}}
	result := models.Part{Result: &models.Result{ID: "toolu_1", Name: "FILE_READ", Content: "package a"}}
	foreign := models.Part{Opaque: &models.Opaque{Wire: "gemini", Data: json.RawMessage(`"x"`)}}
	modelstest.Goldens(t, kit(), map[string]models.Request{
		"reasoning": {Model: "test", MaxTokens: 2000, Messages: []models.Message{
			{Role: models.User, Parts: []models.Part{{Text: "Read a."}}},
			{Role: models.Model, Parts: append(kit().Opaque, foreign, call)},
			{Role: models.User, Parts: []models.Part{result}},
		}},
	})
}

func FuzzStream(f *testing.F) { modelstest.Fuzz(f, kit()) }

const (
	start = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg\",\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
	end   = "data: {\"type\":\"message_stop\"}\n\n"
)

// stopped returns the event with the reason of the end.
func stopped(reason, usage string) string {
	return "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + reason + "\"},\"usage\":" + usage + "}\n\n"
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]models.Usage{
		`{"output_tokens":7}`: {Input: 10, Output: 7},
		`{"input_tokens":12,"cache_read_input_tokens":5,"cache_creation_input_tokens":null,"output_tokens":7}`: {Input: 12, CacheRead: 5, Output: 7},
		`{"output_tokens":-7}`: {Input: 10},
		`null`:                 {Input: 10, Output: 1},
		`{"input_tokens":12.0,"output_tokens":7e0}`:                   {Input: 12, Output: 7},
		`{"input_tokens":9223372036854775808,"output_tokens":"many"}`: {Input: 1 << 40},
		`[]`: {Input: 10, Output: 1},
	} {
		a, err := modelstest.Canned{Body: start + stopped("end_turn", usage) + end}.Ask(t, kit())
		require.Nil(t, err)
		assert.Equal(t, want, a.Usage, usage)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]models.Stop{
		"end_turn": models.StopEnd, "stop_sequence": models.StopEnd, "tool_use": models.StopCalls, "max_tokens": models.StopLength,
		"model_context_window_exceeded": models.StopLength, "refusal": models.StopRefused, "pause_turn": models.StopOther,
	} {
		a, err := modelstest.Canned{Body: start + stopped(reason, "{}")}.Ask(t, kit())
		require.Nil(t, err)
		assert.Equal(t, want, a.Stop, reason)
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	block := func(start string, deltas ...string) string {
		var out strings.Builder
		out.WriteString(`data: {"type":"content_block_start","index":0,"content_block":` + start + "}\n\n")
		for _, d := range deltas {
			out.WriteString(`data: {"type":"content_block_delta","index":0,"delta":` + d + "}\n\n")
		}
		return out.String() + `data: {"type":"content_block_stop","index":0}` + "\n\n"
	}
	for name, test := range map[string]struct {
		stream string
		want   []models.Part
	}{
		"text at once":      {block(`{"type":"text","text":"Hi"}`), []models.Part{{Text: "Hi"}}},
		"input at once":     {block(`{"type":"tool_use","id":"a","name":"F","input":{"x":1}}`), []models.Part{{Call: &models.Call{ID: "a", Name: "F", Args: `{"x":1}`}}}},
		"input twice":       {block(`{"type":"tool_use","id":"a","name":"F","input":{"x":1}}`, `{"type":"input_json_delta","partial_json":"{\"x\":2}"}`), []models.Part{{Call: &models.Call{ID: "a", Name: "F", Args: `{"x":2}`}}}},
		"no input":          {block(`{"type":"tool_use","id":"a","name":"F","input":{}}`, `{"type":"input_json_delta","partial_json":""}`), []models.Part{{Call: &models.Call{ID: "a", Name: "F"}}}},
		"unknown block":     {block(`{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{}"}`) + block(`{"type":"text","text":"Hi"}`), []models.Part{{Text: "Hi"}}},
		"unknown delta":     {block(`{"type":"text","text":""}`, `{"type":"citations_delta","citation":{}}`, `{"type":"text_delta","text":"Hi"}`), []models.Part{{Text: "Hi"}}},
		"omitted reasoning": {block(`{"type":"thinking","thinking":"","signature":""}`, `{"type":"signature_delta","signature":"s"}`), []models.Part{opaque(`{"type":"thinking","thinking":"","signature":"s"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := modelstest.Canned{Body: start + test.stream + stopped("end_turn", "{}") + end}.Ask(t, kit())
			require.Nil(t, err)
			assert.Equal(t, test.want, a.Message.Parts)
		})
	}
}

func TestReasoningIsBounded(t *testing.T) {
	t.Parallel()
	thought := `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"` + strings.Repeat("x", 1<<20) + "\"}}\n\n"
	body := start + `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}` + "\n\n"
	_, err := modelstest.Canned{Body: body + strings.Repeat(thought, 20)}.Ask(t, kit())
	require.NotNil(t, err)
	assert.Equal(t, models.TooLarge, err.Kind)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	body := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	for name, test := range map[string]struct {
		response modelstest.Canned
		want     models.Error
	}{
		"too long":             {modelstest.Canned{Status: 400, Body: body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: prompt is too long: 210000 tokens > 200000 maximum", Status: 400}},
		"too long with answer": {modelstest.Canned{Status: 400, Body: body("invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 2 > 10")}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: input length and `max_tokens` exceed context limit: 9 + 2 > 10", Status: 400}},
		"too many bytes":       {modelstest.Canned{Status: 413, Body: body("request_too_large", "too large")}, models.Error{Kind: models.TooLong, Message: "413 Request Entity Too Large: too large", Status: 413}},
		"no money":             {modelstest.Canned{Status: 400, Body: body("billing_error", "no credit")}, models.Error{Kind: models.Invalid, Message: "400 Bad Request: no credit", Status: 400}},
		"unknown":              {modelstest.Canned{Status: 500, Body: body("new_error", "hm")}, models.Error{Kind: models.Overloaded, Message: "500 Internal Server Error: hm", Status: 500}},
		"event":                {modelstest.Canned{Body: start + "event: error\ndata: " + body("rate_limit_error", "slow") + "\n\n"}, models.Error{Kind: models.RateLimited, Message: "slow"}},
		"unknown event":        {modelstest.Canned{Body: start + "event: error\ndata: " + body("new_error", "hm") + "\n\n"}, models.Error{Kind: models.Transport, Message: "hm"}},
		"no reason":            {modelstest.Canned{Body: start + end}, models.Error{Kind: models.Transport, Message: "the provider ended the answer without a reason"}},
		"block without a type": {modelstest.Canned{Body: start + "data: {\"type\":\"content_block_start\"}\n\n"}, models.Error{Kind: models.Transport, Message: "malformed event: content_block: unexpected end of JSON input"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := test.response.Ask(t, kit())
			require.NotNil(t, err)
			assert.Equal(t, test.want, *err)
		})
	}
}
