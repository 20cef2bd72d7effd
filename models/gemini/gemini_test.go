package gemini_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/gemini"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/models/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func signature(s string) models.Part {
	return models.Part{Opaque: &models.Opaque{Wire: gemini.Wire, Data: json.RawMessage(`"` + s + `"`)}}
}

func kit() modelstest.Kit {
	return modelstest.Kit{
		Wire: modelstest.Gemini, New: func(c wire.Config) models.Provider { return gemini.New(c) },
		Opaque: []models.Part{signature("c2lnbmF0dXJl")},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	modelstest.Run(t, kit())
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	call := models.Part{Call: &models.Call{ID: "call_1_1", Name: "FILE_READ", Args: `{"path":"a"}`}}
	result := models.Part{Result: &models.Result{ID: "call_1_1", Name: "FILE_READ", Content: "package a"}}
	foreign := models.Part{Opaque: &models.Opaque{Wire: "anthropic", Data: json.RawMessage(`{"type":"thinking"}`)}}
	modelstest.Goldens(t, kit(), map[string]models.Request{
		"signatures": {Model: "tunedModels/my test", Messages: []models.Message{
			{Role: models.User, Parts: []models.Part{{Text: "Read a."}}},
			{Role: models.Model, Parts: []models.Part{foreign, {Text: "Well."}, signature("AA=="), call, call}},
			{Role: models.User, Parts: []models.Part{result, result}},
			{Role: models.Model, Parts: []models.Part{signature("AQ=="), {Text: "Done."}, signature("Ag=="), signature("Aw==")}},
			{Role: models.User, Parts: []models.Part{{Text: "And b?"}}},
		}},
		"old-model": {Model: "gemini-2.5-flash", Messages: []models.Message{
			{Role: models.User, Parts: []models.Part{{Text: "Read a."}}},
			{Role: models.Model, Parts: []models.Part{call}},
			{Role: models.User, Parts: []models.Part{result}},
		}},
	})
}

func FuzzStream(f *testing.F) { modelstest.Fuzz(f, kit(), chunk(`{"functionCall":{"name":"F"}}`, "")) }

// chunk returns an event with parts.
func chunk(parts, rest string) string {
	return `data: {"candidates":[{"content":{"role":"model","parts":[` + parts + `]}` + rest + "}]}\n\n"
}

const stop = `,"finishReason":"STOP"`

func TestParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   []models.Part
	}{
		"calls without ids":      {chunk(`{"functionCall":{"name":"F","args":{"x":1}}},{"functionCall":{"name":"F"}}`, stop), []models.Part{{Call: &models.Call{ID: "call_1_1", Name: "F", Args: `{"x":1}`}}, {Call: &models.Call{ID: "call_1_2", Name: "F"}}}},
		"call with signature":    {chunk(`{"functionCall":{"id":"a","name":"F","args":{}},"thoughtSignature":"s"}`, "") + chunk("", stop), []models.Part{signature("s"), {Call: &models.Call{ID: "a", Name: "F", Args: "{}"}}}},
		"signature at the end":   {chunk(`{"text":"Hi"}`, "") + chunk(`{"text":"","thoughtSignature":"s"}`, stop), []models.Part{{Text: "Hi"}, signature("s")}},
		"text with signature":    {chunk(`{"text":"Hi"}`, "") + chunk(`{"text":" you","thoughtSignature":"s"},{"text":"."}`, stop), []models.Part{{Text: "Hi"}, signature("s"), {Text: " you."}}},
		"summary of thoughts":    {chunk(`{"text":"First…","thought":true},{"text":"Hi"}`, stop), []models.Part{{Text: "Hi"}}},
		"unknown parts":          {chunk(`{"executableCode":{"code":"1"}},null,{"text":"Hi"}`, stop), []models.Part{{Text: "Hi"}}},
		"no content":             {`data: {"candidates":[{"finishReason":"STOP"}]}` + "\n\n", nil},
		"another candidate":      {`data: {"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]}}]}` + "\n\n" + chunk(`{"text":"Hi"}`, stop), []models.Part{{Text: "Hi"}}},
		"signature that is null": {chunk(`{"text":"Hi","thoughtSignature":null}`, stop), []models.Part{{Text: "Hi"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := modelstest.Canned{Body: test.stream}.Ask(t, kit())
			require.Nil(t, err)
			assert.Equal(t, test.want, a.Message.Parts)
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]models.Stop{
		"STOP": models.StopEnd, "MAX_TOKENS": models.StopLength, "SAFETY": models.StopRefused, "RECITATION": models.StopRefused,
		"PROHIBITED_CONTENT": models.StopRefused, "MALFORMED_FUNCTION_CALL": models.StopOther, "NEW": models.StopOther,
	} {
		a, err := modelstest.Canned{Body: chunk(`{"text":"Hi"}`, `,"finishReason":"`+reason+`"`)}.Ask(t, kit())
		require.Nil(t, err)
		assert.Equal(t, want, a.Stop, reason)
	}
	a, err := modelstest.Canned{Body: `data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9}}` + "\n\n"}.Ask(t, kit())
	require.Nil(t, err)
	assert.Equal(t, models.StopRefused, a.Stop)
	assert.Equal(t, models.Usage{Input: 9}, a.Usage)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]models.Usage{
		`{"promptTokenCount":100,"cachedContentTokenCount":60,"toolUsePromptTokenCount":5,"candidatesTokenCount":7,"thoughtsTokenCount":20}`: {Input: 45, CacheRead: 60, Output: 27},
		`{"promptTokenCount":-1,"candidatesTokenCount":-7}`:   {},
		`{"promptTokenCount":9.5,"candidatesTokenCount":"7"}`: {Input: 10, Output: 7},
		`{"promptTokenCount":4611686018427387904}`:            {Input: 1 << 40},
		`[]`:   {},
		`null`: {},
	} {
		a, err := modelstest.Canned{Body: `data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":` + usage + "}\n\n"}.Ask(t, kit())
		require.Nil(t, err)
		assert.Equal(t, want, a.Usage, usage)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	body := func(code, message, status, details string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `","status":"` + status + `","details":[` + details + `]}}`
	}
	retry := `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"8.5s"}`
	for name, test := range map[string]struct {
		response modelstest.Canned
		want     models.Error
	}{
		"quota":            {modelstest.Canned{Status: 429, Body: body("429", "slow", "RESOURCE_EXHAUSTED", retry)}, models.Error{Kind: models.RateLimited, Message: "429 Too Many Requests: slow", Status: 429, After: 8500 * time.Millisecond}},
		"a list":           {modelstest.Canned{Status: 429, Body: "[" + body("429", "slow", "RESOURCE_EXHAUSTED", retry) + "]"}, models.Error{Kind: models.RateLimited, Message: "429 Too Many Requests: slow", Status: 429, After: 8500 * time.Millisecond}},
		"invalid key":      {modelstest.Canned{Status: 400, Body: body("400", "API key not valid.", "INVALID_ARGUMENT", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`)}, models.Error{Kind: models.Unauthorized, Message: "400 Bad Request: API key not valid.", Status: 400}},
		"too long":         {modelstest.Canned{Status: 400, Body: body("400", "The input token count (9) exceeds the maximum number of tokens allowed (8).", "INVALID_ARGUMENT", "")}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: The input token count (9) exceeds the maximum number of tokens allowed (8).", Status: 400}},
		"no such model":    {modelstest.Canned{Status: 404, Body: body("404", "no model", "NOT_FOUND", "")}, models.Error{Kind: models.Invalid, Message: "404 Not Found: no model", Status: 404}},
		"event":            {modelstest.Canned{Body: chunk(`{"text":"Hi"}`, "") + "data: " + body("503", "overloaded", "UNAVAILABLE", "") + "\n\n"}, models.Error{Kind: models.Overloaded, Message: "overloaded"}},
		"event with delay": {modelstest.Canned{Body: "data: " + body("429", "slow", "RESOURCE_EXHAUSTED", retry) + "\n\n"}, models.Error{Kind: models.RateLimited, Message: "slow", After: 8500 * time.Millisecond}},
		"unknown event":    {modelstest.Canned{Body: "data: " + body("999", "hm", "NEW", "") + "\n\n"}, models.Error{Kind: models.Transport, Message: "hm"}},
		"nothing":          {modelstest.Canned{Body: ""}, models.Error{Kind: models.Transport, Message: "the answer ended before it was complete"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := test.response.Ask(t, kit())
			require.NotNil(t, err)
			assert.Equal(t, test.want, *err)
		})
	}
}
