package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModels(t *testing.T) {
	t.Parallel()
	m, err := place{what: "models", dir: "/home/ada"}.models(`
providers:
  local: {wire: openai, url: "http://127.0.0.1:8080/v1/", idle: 90s, concurrency: 2}
  claude: {wire: anthropic, key: env:CLAUDE_KEY}
  gateway:
    wire: gemini
    url: https://models.example.com/v1
    ca: certs/own.pem
    headers: {x-goog-api-key: "file:keys/gateway", X-Title: orch, authorization: env:GATEWAY}
    fields: {generationConfig: {thinkingConfig: {level: high}}, labels: [a, 1, 0.5, null], since: 2026-11-01, big: 9007199254740993}
prices:
  local/*: {input: 0.5, output: 1, as_of: 2026-11-01}
  free/*: {input: 0.5, cache_read: 0, cache_write: 0, output: 1, as_of: 2026-11-01}
  claude/big: {input: 15, cache_read: 1.5, cache_write: 18.75, output: 75, as_of: 2026-11-02}
  'sampling:': {input: 1, output: 2, as_of: 2026-11-01}
  sampling:claude-4.5/x: {input: 3, output: 4, as_of: 2026-11-01}
  sampling:*: {input: 5, output: 6, as_of: 2026-11-01}
`)
	require.NoError(t, err)
	assert.Equal(t, map[string]ModelProvider{
		"local": {Wire: "openai", URL: "http://127.0.0.1:8080/v1", Idle: 90 * time.Second, Concurrency: 2}, "claude": {Wire: "anthropic", Key: "env:CLAUDE_KEY"},
		"gateway": {
			Wire: "gemini", URL: "https://models.example.com/v1", CA: "/home/ada/certs/own.pem",
			Headers: map[string]ModelHeader{"X-Goog-Api-Key": {Secret: "file:/home/ada/keys/gateway"}, "X-Title": {Text: "orch"}, "Authorization": {Secret: "env:GATEWAY"}},
			Fields: map[string]json.RawMessage{
				"generationConfig": json.RawMessage(`{"thinkingConfig":{"level":"high"}}`), "labels": json.RawMessage(`["a",1,0.5,null]`),
				"since": json.RawMessage(`"2026-11-01"`), "big": json.RawMessage(`9007199254740993`),
			},
		},
	}, m.Providers)
	assert.ElementsMatch(t, []string{"/home/ada/certs/own.pem", "/home/ada/keys/gateway"}, m.Providers["gateway"].SecretFiles())
	assert.Empty(t, m.Providers["claude"].SecretFiles())
	assert.Equal(t, map[string]ModelPrice{
		"local/*": {Input: 500, CacheRead: 500, CacheWrite: 500, Output: 1000, AsOf: "2026-11-01"},
		"free/*":  {Input: 500, Output: 1000, AsOf: "2026-11-01"}, "claude/big": {Input: 15000, CacheRead: 1500, CacheWrite: 18750, Output: 75000, AsOf: "2026-11-02"},
		"sampling:":             {Input: 1000, CacheRead: 1000, CacheWrite: 1000, Output: 2000, AsOf: "2026-11-01"},
		"sampling:claude-4.5/x": {Input: 3000, CacheRead: 3000, CacheWrite: 3000, Output: 4000, AsOf: "2026-11-01"},
		"sampling:*":            {Input: 5000, CacheRead: 5000, CacheWrite: 5000, Output: 6000, AsOf: "2026-11-01"},
	}, m.Prices)
}

func TestModelsAsSettings(t *testing.T) {
	t.Parallel()
	want := Models{
		Providers: map[string]ModelProvider{
			"local": {Wire: "openai", URL: "http://127.0.0.1:8080/v1", Idle: 90 * time.Second, Concurrency: 2},
			"gateway": {
				Wire: "gemini", URL: "https://models.example.com/v1", Key: "file:/home/ada/keys/gateway", CA: "/home/ada/certs/own.pem",
				Headers: map[string]ModelHeader{"X-Title": {Text: "orch: shop"}, "Authorization": {Secret: "env:GATEWAY"}},
				Fields:  map[string]json.RawMessage{"labels": json.RawMessage(`["a",1,0.5,null,{"on":true}]`), "since": json.RawMessage(`"2026-11-01"`)},
			},
		},
		Prices: map[string]ModelPrice{"local/*": {Input: 500, CacheRead: 50, CacheWrite: 625, Output: 1000, AsOf: "2026-11-01"}},
		Source: "models", Concurrency: 40,
	}
	text, err := want.YAML()
	require.NoError(t, err)
	got, err := place{what: "models", dir: "/elsewhere"}.models(text)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, []string{"GATEWAY"}, want.Providers["gateway"].SecretVariables())
	assert.Empty(t, want.Providers["local"].SecretVariables())
}

func TestSlots(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 128, Models{}.Slots())
	assert.Equal(t, 40, Models{Concurrency: 40}.Slots())
	for want, p := range map[int]ModelProvider{
		64: {Wire: "openai"}, 8: {Wire: "openai", URL: "http://127.0.0.1:8080/v1"}, 2: {Wire: "openai", URL: "http://localhost:8080/v1", Concurrency: 2},
	} {
		assert.Equal(t, want, p.Slots())
	}
}

func TestModelsThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[1]": "the models cannot be read",
		"providers: {a: {wire: openai, colour: red}}":                             `unknown key "colour"`,
		"providers: {A: {wire: openai}}":                                          `"A" is no name of a provider`,
		"providers: {a: {wire: telepathy}}":                                       `the wire "telepathy" of the provider a is none of anthropic, gemini, openai`,
		"providers: {a: {wire: openai, url: 'ftp://x'}}":                          "is no http or https URL",
		"providers: {a: {wire: openai, url: 'https://u:p@x'}}":                    "the credential belongs into `key`",
		"providers: {a: {wire: openai, url: 'http://example.com', key: 'env:K'}}": "would send a secret without encryption",
		"providers: {a: {wire: openai, key: sk-secret}}":                          "models, key of the provider a: a secret does not stand in the settings",
		"providers: {a: {wire: openai, key: [sk-secret]}}":                        "a list is not of the expected kind",
		"providers: {a: {wire: openai, headers: sk-secret}}":                      "a text is not of the expected kind",
		"providers: {a: {wire: openai, url: 'https://x/?k=sk-secret'}}":           "contains a query or a fragment",
		"providers: {a: {wire: openai, idle: soon}}":                              `the idle time "soon"`,
		"providers: {a: {wire: openai, concurrency: 0}}":                          "the provider a: `concurrency` is 0, not between 1 and 10000",
		"concurrency: 10001":                                                      "`concurrency` is 10001, not between 1 and 10000",
		"prices: {gpt: {input: 1, as_of: 2026-11-01}}":                            `"gpt" is no name of a model with a price`,
		"prices: {'sampling:a b': {input: 1, as_of: 2026-11-01}}":                 `"sampling:a b" is no name of a model with a price`,
		"prices: {'sampling:*x': {input: 1, as_of: 2026-11-01}}":                  `"sampling:*x" is no name of a model with a price`,
		"prices: {'script:demo': {input: 1, as_of: 2026-11-01}}":                  `"script:demo" is no name of a model with a price`,
		"prices: {a/b: {input: 1}}":                                               "needs its date",
		"prices: {a/b: {input: -1, as_of: 2026-11-01}}":                           "is not between 0 and 1000000",
	} {
		_, err := place{what: "models"}.models(text)
		require.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "sk-secret")
	}
}

func TestHeadersAndFieldsThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"headers: {Authorization: Bearer sk-secret}":                          "looks like a credential",
		"headers: {x-team-token: sk-secret}":                                  "looks like a credential",
		"headers: {X-Apikey: sk-secret}":                                      "looks like a credential",
		"headers: {Cookie: sk-secret}":                                        "looks like a credential",
		"headers: {X-Name: ghp_" + strings.Repeat("0rchCrash9", 4)[:36] + "}": "looks like a credential",
		"headers: {X-Team: ''}":                                               "must have 1 to 1024 bytes",
		`headers: {X-Team: "sk-secret\r\nX-Evil: 1"}`:                         "without line breaks",
		"headers: {X-Team: " + strings.Repeat("long ", 205) + "x}":            "must have 1 to 1024 bytes",
		"headers: {'X Team': a}":                                              `"X Team" of the provider p is no name of a header`,
		"headers: {content-type: text/plain}":                                 "is set by orch itself",
		"headers: {X-Team: a, x-team: b}":                                     "stands twice",
		"headers: {X-Team: 'env:'}":                                           "models, header X-Team of the provider p: a secret does not stand in the settings",
		"key: env:K, headers: {authorization: env:K}":                         "is the one in which `key` is sent",
		"url: 'http://example.com', headers: {X-Key: env:K}":                  "would send a secret without encryption",
		"fields: {messages: []}":                                              "the field messages of the provider p is set by orch itself",
		"fields: {Max_Tokens: 1}":                                             "the field Max_Tokens of the provider p is set by orch itself",
		"fields: {'a b': 1}":                                                  `"a b" is no name of a field`,
		"fields: {a: {1: 2}}":                                                 "has no form in JSON",
		"fields: {a: .nan}":                                                   "has no form in JSON",
		"fields: {a: '" + strings.Repeat("x", 17_000) + "'}":                  "have more than 16384 bytes",
	} {
		_, err := place{what: "models"}.models("providers: {p: {wire: openai, " + text + "}}")
		require.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "sk-secret")
		assert.NotContains(t, err.Error(), "ghp_")
	}
	_, err := place{what: "models"}.models("providers: {p: {wire: gemini, fields: {generation_config: {max_output_tokens: 9}}}}")
	require.ErrorContains(t, err, "the field generation_config.max_output_tokens of the provider p is set by orch itself")
}

func TestHeaderReads(t *testing.T) {
	t.Parallel()
	getenv := func(name string) string {
		return map[string]string{"GOOD": " good ", "BAD": "sk-secret\nX-Evil: 1"}[name]
	}
	for header, want := range map[ModelHeader]string{{Text: "plain"}: "plain", {Secret: "env:GOOD"}: "good"} {
		got, err := header.Read(getenv)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ModelHeader{Secret: "env:BAD"}.Read(getenv)
	require.ErrorContains(t, err, "the secret in env:BAD contains a line break")
	assert.NotContains(t, err.Error(), "sk-secret")
	_, err = ModelHeader{Secret: "env:NONE"}.Read(getenv)
	require.ErrorContains(t, err, "the variable NONE is not set")
}

func TestModelBudgets(t *testing.T) {
	t.Parallel()
	m, err := place{what: "config.yaml:3"}.models(`budgets:
  - {usd: 20, per: day}
  - {usd: 0.5, tokens: 10, per: month, by: identity, label: {team: shop}, model: "openai/*"}
`)
	require.NoError(t, err)
	assert.Equal(t, "config.yaml:3", m.Source)
	assert.Equal(t, []ModelBudget{
		{NanoUSD: 20e9, Per: "day"}, {NanoUSD: 5e8, Tokens: 10, Per: "month", By: "identity", Labels: map[string]string{"team": "shop"}, Model: "openai/*"},
	}, m.Budgets)
	for text, want := range map[string]string{
		"{per: day}":                               "budget 1 limits nothing",
		"{usd: 1}":                                 `budget 1 is per "", which is neither day nor month`,
		"{usd: -1, per: day}":                      "usd of budget 1 is not more than 0",
		"{usd: .nan, per: day}":                    "usd of budget 1 is not more than 0",
		"{usd: 0, tokens: 5, per: day}":            "usd of budget 1 is not more than 0",
		"{usd: 1, tokens: 0, per: day}":            "tokens of budget 1 are not between",
		"{tokens: -1, per: day}":                   "tokens of budget 1 are not between",
		"{usd: 1, per: day, by: colour}":           `budget 1 is by "colour"`,
		"{usd: 1, per: day, model: 'a*b'}":         "is a name, or a beginning and *",
		"{usd: 1, per: day, colour: red}":          `unknown key "colour"`,
		strings.Repeat("{usd: 1, per: day}, ", 65): "there are 65 budgets, more than 64",
	} {
		_, err := place{what: "models"}.models("budgets: [" + text + "]")
		require.ErrorContains(t, err, want, text)
	}
}
