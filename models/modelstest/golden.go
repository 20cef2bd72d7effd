package modelstest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
)

// update is the environment variable that writes golden files again.
const update = "ORCH_UPDATE_GOLDEN"

// golden is a request as a golden file has it.
type golden struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// Goldens compares what a provider sends with the files of testdata. others are further requests by the names of their
// files.
func Goldens(t *testing.T, kit Kit, others map[string]models.Request) {
	t.Helper()
	requests := Requests()
	maps.Copy(requests, others)
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, seen := kit.open(t, Reply{Answer: Said(models.StopEnd, text("ok"))})
			_, _, err := ask(t, p, r)
			require.Nil(t, err)
			compare(t, filepath.Join("testdata", name+".json"), (*seen)[0])
		})
	}
}

// compare compares a request with a golden file.
func compare(tb testing.TB, file string, seen Seen) {
	tb.Helper()
	got := golden{Path: seen.Path, Headers: ownHeaders(seen.Headers), Body: seen.Body}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(tb, encoder.Encode(got))
	if os.Getenv(update) == "1" {
		require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(tb, os.WriteFile(file, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(tb, err)
	assert.Equal(tb, string(want), out.String())
}

// ownHeaders returns the headers that do not come from net/http.
func ownHeaders(h http.Header) map[string]string {
	own := map[string]string{}
	for name := range h {
		if !slices.Contains([]string{"User-Agent", "Content-Length", "Accept-Encoding"}, name) {
			own[name] = h.Get(name)
		}
	}
	return own
}

// Requests returns requests that use every field of the port, by the names of their golden files.
func Requests() map[string]models.Request {
	cold := 0.0
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"A path"}},"required":["path"]}`)
	tools := []models.Tool{
		{Name: "FILE_READ", Description: "Read a file", Schema: schema},
		{Name: "FILE_WRITE", Schema: schema},
	}
	user := func(parts ...models.Part) models.Message { return models.Message{Role: models.User, Parts: parts} }
	model := func(parts ...models.Part) models.Message { return models.Message{Role: models.Model, Parts: parts} }
	result := func(id, content string, failed bool) models.Part {
		return models.Part{Result: &models.Result{ID: id, Name: "FILE_READ", Content: content, Failed: failed}}
	}
	return map[string]models.Request{
		"plain": {Model: "test", Messages: []models.Message{user(text("Hello"))}},
		"full": {
			Model: "test", System: "You review <code>.", Tools: tools, MaxTokens: 4096, Temperature: &cold, Key: "TASK_1.review.t3",
			Messages: []models.Message{
				user(text("Review this."), models.Part{Image: &models.Image{MIME: "image/png", Data: []byte("\x89PNG")}}),
				model(text("I read both."), call("call_a", `{"path":"/w/a.go"}`), call("call_b", `{"path": "/w/b`), call("call_1_3", "")),
				user(text("Hurry."), result("call_a", "package a", false), result("call_b", "no such file", true), result("call_1_3", "", false)),
				model(text("a is fine.")),
				user(text("And?")),
			},
		},
		"no-calls": {
			Model: "test", Tools: tools, NoCalls: true, MaxTokens: 100,
			Messages: []models.Message{user(text("Read a.")), model(call("call_a", `{"path":"/w/a.go"}`)), user(result("call_a", "package a", false), text("Answer now."))},
		},
		"answer": {
			Model: "test", System: "Decide.", MaxTokens: 100, Messages: []models.Message{user(text("Is it good?"))},
			Result: json.RawMessage(`{"type":"object","properties":{"good":{"type":"boolean"},"why":{"type":"array","items":{"type":"object","properties":{"line":{"type":"integer"}},"required":["line"],"additionalProperties":false}}},"required":["good","why"],"additionalProperties":false}`),
		},
		"open-answer": {
			Model: "test", Messages: []models.Message{user(text("Is it good?"))}, Tools: tools[:1],
			Result: json.RawMessage(`{"type":"object","properties":{"good":{"type":"boolean"}}}`),
		},
	}
}
