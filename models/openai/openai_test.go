package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/models/openai"
	"github.com/orch-dev/orch/models/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(server.stopBehind(m)) }

func kit() modelstest.Kit {
	return modelstest.Kit{
		Wire: modelstest.OpenAI, New: func(c wire.Config) models.Provider { return openai.New(c) }, Malformed: true,
		Opaque: []models.Part{{Opaque: &models.Opaque{Wire: openai.Wire, Data: json.RawMessage(`"First I read."`)}}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	modelstest.Run(t, kit())
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	modelstest.Goldens(t, kit(), nil)
}

func FuzzStream(f *testing.F) {
	modelstest.Fuzz(f, kit(), stream(`{"delta":{"tool_calls":[{"id":"a","function":{"name":"F"}},{"function":{"arguments":"{"}}]},"finish_reason":"stop"}`))
}

// stream returns a stream with these choices, each in an event of its own.
func stream(choices ...string) string {
	var out strings.Builder
	for _, choice := range choices {
		out.WriteString(`data: {"choices":[` + choice + "]}\n\n")
	}
	return out.String() + "data: [DONE]\n\n"
}

// delta returns a choice with pieces of calls.
func delta(pieces string) string { return `{"index":0,"delta":{"tool_calls":[` + pieces + `]}}` }

const finish = `{"index":0,"delta":{},"finish_reason":"tool_calls"}`

// calls returns the calls of an answer as ID NAME ARGS.
func calls(a models.Answer) (list []string) {
	for _, p := range a.Message.Parts {
		if p.Call != nil {
			list = append(list, p.Call.ID+" "+p.Call.Name+" "+p.Call.Args)
		}
	}
	return list
}

// Servers differ in how they divide calls.
func TestCallsOfOtherServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"whole calls":            {stream(delta(`{"index":0,"id":"a","function":{"name":"F","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"G","arguments":"{}"}}`), finish), []string{"a F {}", "b G {}"}},
		"mixed":                  {stream(delta(`{"index":0,"id":"a","function":{"name":"F"}}`), delta(`{"index":1,"id":"b","function":{"name":"G"}}`), delta(`{"index":1,"function":{"arguments":"2"}}`), delta(`{"index":0,"function":{"arguments":"1"}}`), finish), []string{"a F 1", "b G 2"}},
		"no ids":                 {stream(delta(`{"index":0,"function":{"name":"F","arguments":"{"}}`), delta(`{"index":0,"function":{"arguments":"}"}}`), delta(`{"index":1,"function":{"name":"G"}}`), finish), []string{"call_1_1 F {}", "call_1_2 G "}},
		"no index":               {stream(delta(`{"id":"a","function":{"name":"F","arguments":"{"}}`), delta(`{"function":{"arguments":"}"}}`), delta(`{"id":"b","function":{"name":"G"}}`), finish), []string{"a F {}", "b G "}},
		"no index and no ids":    {stream(delta(`{"function":{"name":"F","arguments":"{}"}},{"function":{"name":"F","arguments":"{}"}}`), finish), []string{"call_1_1 F {}", "call_1_2 F {}"}},
		"the same index":         {stream(delta(`{"index":0,"id":"a","function":{"name":"F","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"F","arguments":"[]"}}`), finish), []string{"a F {}", "b F []"}},
		"id and name repeated":   {stream(delta(`{"index":0,"id":"a","function":{"name":"F","arguments":"{"}}`), delta(`{"index":0,"id":"a","function":{"name":"F","arguments":"}"}}`), finish), []string{"a F {}"}},
		"name and id come later": {stream(delta(`{"index":0,"function":{"arguments":"{"}}`), delta(`{"index":0,"id":"a","function":{"name":"F","arguments":"}"}}`), finish), []string{"a F {}"}},
		"begins at one":          {stream(delta(`{"index":1,"id":"a","function":{"name":"F","arguments":"{}"}}`), finish), []string{"a F {}"}},
		"another choice":         {stream(`{"index":1,"delta":{"content":"no"}}`, delta(`{"index":0,"id":"a","function":{"name":"F"}}`), finish), []string{"a F "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := modelstest.Canned{Body: test.stream}.Ask(t, kit())
			require.Nil(t, err)
			assert.Equal(t, test.want, calls(a))
			assert.Equal(t, models.StopCalls, a.Stop)
		})
	}
	_, err := modelstest.Canned{Body: stream(delta(`{"index":0,"id":"a"}`), finish)}.Ask(t, kit())
	require.NotNil(t, err)
	assert.Equal(t, models.Transport, err.Kind)
}

func TestStop(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   models.Stop
	}{
		"stop with calls":      {stream(delta(`{"index":0,"id":"a","function":{"name":"F"}}`), `{"delta":{},"finish_reason":"stop"}`), models.StopCalls},
		"calls without one":    {stream(`{"delta":{"content":"a"},"finish_reason":"tool_calls"}`), models.StopEnd},
		"old name":             {stream(delta(`{"index":0,"id":"a","function":{"name":"F"}}`), `{"delta":{},"finish_reason":"function_call"}`), models.StopCalls},
		"refusal as a field":   {stream(`{"delta":{"refusal":"No."}}`, `{"delta":{},"finish_reason":"stop"}`), models.StopRefused},
		"no end of the stream": {`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n", models.StopEnd},
		"null in every field":  {stream(`{"delta":{"content":null,"tool_calls":null,"refusal":null},"finish_reason":null}`, `{"delta":null,"finish_reason":"stop"}`), models.StopEnd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := modelstest.Canned{Body: test.stream}.Ask(t, kit())
			require.Nil(t, err)
			assert.Equal(t, test.want, a.Stop)
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]models.Usage{
		`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30}}`: {Input: 10, CacheRead: 60, CacheWrite: 30, Output: 7},
		`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":null}`:                                         {Input: 100, Output: 7},
		`{"prompt_tokens":1,"completion_tokens":-7,"prompt_tokens_details":{"cached_tokens":60}}`:                          {CacheRead: 60},
		`{"prompt_tokens":10.0,"completion_tokens":1e3}`:                                                                   {Input: 10, Output: 1000},
		`{"prompt_tokens":"10","completion_tokens":"many"}`:                                                                {Input: 10},
		`{"prompt_tokens":4611686018427387904,"completion_tokens":9223372036854775808}`:                                    {Input: 1 << 40, Output: 1 << 40},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":-9223372036854775808}}`:                              {Input: 10},
		`[]`:   {},
		`null`: {},
	} {
		a, err := modelstest.Canned{Body: `data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":` + usage + "}\n\n"}.Ask(t, kit())
		require.Nil(t, err)
		assert.Equal(t, want, a.Usage, usage)
	}
}

// Errors of several servers.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		response modelstest.Canned
		want     models.Error
	}{
		"OpenAI, too long":     {modelstest.Canned{Status: 400, Body: `{"error":{"message":"Too many tokens","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: Too many tokens", Status: 400}},
		"OpenAI, quota":        {modelstest.Canned{Status: 429, Body: `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`}, models.Error{Kind: models.Invalid, Message: "429 Too Many Requests: You exceeded your quota", Status: 429}},
		"llama.cpp, too long":  {modelstest.Canned{Status: 400, Body: `{"error":{"code":400,"message":"the request is large","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}`}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: the request is large", Status: 400}},
		"llama.cpp, loading":   {modelstest.Canned{Status: 503, Body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`}, models.Error{Kind: models.Overloaded, Message: "503 Service Unavailable: Loading model", Status: 503}},
		"vLLM, too long":       {modelstest.Canned{Status: 400, Body: `{"object":"error","message":"This model's maximum context length is 10 tokens.","type":"BadRequestError","param":null,"code":400}`}, models.Error{Kind: models.TooLong, Message: "400 Bad Request: This model's maximum context length is 10 tokens.", Status: 400}},
		"FastAPI":              {modelstest.Canned{Status: 404, Body: `{"detail":"Not Found"}`}, models.Error{Kind: models.Invalid, Message: "404 Not Found: Not Found", Status: 404}},
		"a text":               {modelstest.Canned{Status: 404, Body: `{"error":"model not found"}`}, models.Error{Kind: models.Invalid, Message: "404 Not Found: model not found", Status: 404}},
		"a page":               {modelstest.Canned{Status: 502, Type: "text/html", Body: `<html>`}, models.Error{Kind: models.Overloaded, Message: "502 Bad Gateway", Status: 502}},
		"nothing":              {modelstest.Canned{Status: 418}, models.Error{Kind: models.Invalid, Message: "418 I'm a teapot", Status: 418}},
		"other types":          {modelstest.Canned{Status: 400, Body: `{"error":{"message":5,"code":{}}}`}, models.Error{Kind: models.Invalid, Message: "400 Bad Request", Status: 400}},
		"success with error":   {modelstest.Canned{Type: "application/json", Body: `{"error":{"message":"no provider","code":502}}`}, models.Error{Kind: models.Invalid, Message: "no provider", Status: 200}},
		"event, vLLM":          {modelstest.Canned{Body: `data: {"object":"error","message":"broken","code":500}` + "\n\n"}, models.Error{Kind: models.Overloaded, Message: "broken"}},
		"event, OpenRouter":    {modelstest.Canned{Body: `data: {"id":"x","error":{"code":429,"message":"limit"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n"}, models.Error{Kind: models.RateLimited, Message: "limit"}},
		"event, unknown":       {modelstest.Canned{Body: `data: {"error":{"message":"hm"}}` + "\n\n"}, models.Error{Kind: models.Transport, Message: "hm"}},
		"event, key":           {modelstest.Canned{Body: `data: {"error":{"code":"invalid_api_key","message":"bad ` + modelstest.Key + `"}}` + "\n\n"}, models.Error{Kind: models.Unauthorized, Message: "bad ***"}},
		"event, no message":    {modelstest.Canned{Body: `data: {"error":{}}` + "\n\n"}, models.Error{Kind: models.Transport, Message: "the provider reports an error without a reason"}},
		"no reason at the end": {modelstest.Canned{Body: stream(`{"delta":{"content":"a"}}`)}, models.Error{Kind: models.Transport, Message: "the provider ended the answer without a reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := test.response.Ask(t, kit())
			require.NotNil(t, err)
			assert.Equal(t, test.want, *err)
		})
	}
}

// recorder keeps the body of a request.
type recorder struct{ body string }

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	r.body = string(body)
	if err != nil {
		return nil, err
	}
	return modelstest.Canned{Body: stream(finish)}.RoundTrip(request)
}

func TestLimitOfTokens(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"":                              `"max_completion_tokens":1000`,
		"https://x.openai.azure.com/v1": `"max_completion_tokens":1000`,
		"http://127.0.0.1:8080/v1":      `"max_tokens":1000`,
		"https://api.openai.com.evil":   `"max_tokens":1000`,
	} {
		var sent recorder
		_, err := openai.New(wire.Config{BaseURL: base, Client: &http.Client{Transport: &sent}}).Stream(t.Context(), modelstest.Question("go"), nil)
		require.NoError(t, err)
		assert.Contains(t, sent.body, want)
	}
}
