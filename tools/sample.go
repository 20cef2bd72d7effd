package tools

import (
	"encoding/json"
	"strings"

	"github.com/orch-dev/orch/events"
)

// maxTokens bounds what a language model says to a prompt.
const maxTokens = 2000

// Sample asks the language model of the client of the task (S2-051). It returns false when there is none, or when
// it has nothing to say. The error is Asking as long as the answer is not known: the call ends with it, and is made
// again when there is one. key names the question in the call.
func (e *Env) Sample(key, prompt string) (string, bool, error) {
	if !e.Can(events.Sampling) {
		return "", false, nil
	}
	raw, known := e.Answer(key)
	if !known {
		return "", false, &Asking{Questions: []Question{{Key: key, Kind: events.Sampling, Params: samplingParams(prompt)}}}
	}
	said := saidBy(raw)
	return said, strings.TrimSpace(said) != "", nil
}

// samplingParams are the parameters of a request of MCP for one prompt.
func samplingParams(prompt string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // plain data can be encoded
		"messages":       []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": prompt}}},
		"maxTokens":      maxTokens,
		"includeContext": "none",
	})
	return raw
}

// saidBy is the text of a result of sampling, whose content is one block or a list of them.
func saidBy(raw json.RawMessage) string {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var one struct {
		Content block `json:"content"`
	}
	if json.Unmarshal(raw, &one) == nil {
		return one.Content.Text
	}
	var many struct {
		Content []block `json:"content"`
	}
	var b strings.Builder
	if json.Unmarshal(raw, &many) == nil {
		for _, part := range many.Content {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}
