package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

// redact hides the secrets of the definition in the texts of a result: with conceal in an error result, otherwise with guard. A
// result without secrets is returned unchanged.
func (s *session) redact(result json.RawMessage) json.RawMessage {
	hide := s.guard
	if isError(result) {
		hide = s.conceal
	}
	if text := string(result); !strings.Contains(text, `\`) && hide(text) == text {
		return result // without escapes, secrets would appear literally
	}
	d := json.NewDecoder(bytes.NewReader(result))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return result
	}
	tree, found := redacted(tree, hide)
	if !found {
		return result
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil {
		panic(err) // it was decoded from JSON
	}
	return bytes.TrimSpace(out.Bytes())
}

// redactCall returns a call that hides the secrets of the definition in the questions and progress reports for the caller.
func (s *session) redactCall(c CallRequest) CallRequest {
	if ask := c.Ask; ask != nil {
		c.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return ask(ctx, method, s.redact(params))
		}
	}
	if progress := c.Progress; progress != nil {
		c.Progress = func(done, total float64, message string) { progress(done, total, s.conceal(message)) }
	}
	return c
}

// isError reports whether a result has isError set.
func isError(result json.RawMessage) bool {
	var head struct {
		IsError bool `json:"isError"`
	}
	return bytes.Contains(result, []byte(`"isError"`)) && json.Unmarshal(result, &head) == nil && head.IsError
}

// redacted returns a value with hide applied to its texts, and reports whether a text has changed.
func redacted(v any, hide func(string) string) (any, bool) {
	changed := false
	switch v := v.(type) {
	case string:
		text := hide(v)
		return text, text != v
	case []any:
		for i, item := range v {
			value, found := redacted(item, hide)
			v[i], changed = value, changed || found
		}
	case map[string]any:
		for key, item := range v {
			value, found := redacted(item, hide)
			name := hide(key)
			if changed = changed || found || name != key; name != key {
				delete(v, key)
			}
			v[name] = value
		}
	}
	return v, changed
}
