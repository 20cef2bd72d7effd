package tools

import (
	"encoding/json"
	"strings"

	"github.com/orch-dev/orch/events"
)

// maxTokens limits the answer of a language model to a prompt.
const maxTokens = 2000

// Sample sends the prompt to the language model of the client of the task (S2-051). It returns the answer, or false
// when there is no model or the answer is empty. Until the answer arrives it returns the error Asking, which the tool
// must return, too; then the tool is called again with the answer. key identifies the question within the call.
func (e *Env) Sample(key, prompt string) (string, bool, error) {
	if !e.Can(events.Sampling) {
		return "", false, nil
	}
	raw, answered := e.Answer(key)
	if !answered {
		return "", false, &Asking{Questions: []Question{{Key: key, Kind: events.Sampling, Params: samplingParams(prompt)}}}
	}
	text := samplingText(raw)
	return text, strings.TrimSpace(text) != "", nil
}

// samplingParams returns the parameters of an MCP sampling request for one prompt.
func samplingParams(prompt string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // plain data can be encoded
		"messages":       []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": prompt}}},
		"maxTokens":      maxTokens,
		"includeContext": "none",
	})
	return raw
}

// samplingText returns the text of a sampling result. Its content is one block or a list of blocks.
func samplingText(raw json.RawMessage) string {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var single struct {
		Content block `json:"content"`
	}
	if json.Unmarshal(raw, &single) == nil {
		return single.Content.Text
	}
	var multiple struct {
		Content []block `json:"content"`
	}
	var b strings.Builder
	if json.Unmarshal(raw, &multiple) == nil {
		for _, part := range multiple.Content {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}
