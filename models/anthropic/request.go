package anthropic

import (
	"cmp"
	"encoding/json"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// request is the body of a request.
type request struct {
	Model        string    `json:"model"`
	MaxTokens    int64     `json:"max_tokens"`
	System       []block   `json:"system,omitempty"`
	Messages     []message `json:"messages"`
	Tools        []tool    `json:"tools,omitempty"`
	ToolChoice   *choice   `json:"tool_choice,omitempty"`
	OutputConfig *output   `json:"output_config,omitempty"`
	Stream       bool      `json:"stream"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // *block, or an opaque part as it came
}

// block is a part of a message: of the type text, image, tool_use or tool_result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Cache     *cacheControl   `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"` // as base64
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       *cacheControl   `json:"cache_control,omitempty"`
}

// choice says which tools the model may call.
type choice struct {
	Type string `json:"type"`
}

type output struct {
	Format format `json:"format"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// cacheControl marks the end of what the provider keeps in its cache.
type cacheControl struct {
	Type string `json:"type"`
}

func cached() *cacheControl { return &cacheControl{"ephemeral"} }

// encode returns the body for r.
func encode(r models.Request) request {
	out := request{
		Model: r.Model, MaxTokens: cmp.Or(r.MaxTokens, DefaultMaxTokens), Messages: []message{}, Stream: true,
	}
	if r.System != "" {
		out.System = []block{{Type: "text", Text: r.System, Cache: cached()}}
	}
	for _, m := range r.Messages {
		if encoded := encodeMessage(m); len(encoded.Content) > 0 {
			out.Messages = append(out.Messages, encoded)
		}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema})
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].Cache = cached()
		if r.NoCalls {
			out.ToolChoice = &choice{"none"}
		}
	}
	if r.Result != nil {
		out.OutputConfig = &output{format{"json_schema", wire.CloseObjects(r.Result)}}
	}
	cacheLast(out.Messages)
	return out
}

// cacheLast marks the last block of the conversation, unless it is opaque.
func cacheLast(messages []message) {
	if len(messages) == 0 {
		return
	}
	content := messages[len(messages)-1].Content
	if last, ok := content[len(content)-1].(*block); ok {
		last.Cache = cached()
	}
}

// encodeMessage returns a message. The protocol refuses empty texts.
func encodeMessage(m models.Message) message {
	out := message{Role: "user"}
	if m.Role == models.Model {
		out.Role = "assistant"
	}
	for _, p := range wire.ResultsFirst(m.Parts) {
		switch {
		case p.Opaque != nil && p.Opaque.Wire == Wire:
			out.Content = append(out.Content, p.Opaque.Data)
		case p.Result != nil:
			out.Content = append(out.Content, &block{Type: "tool_result", ToolUseID: p.Result.ID, Content: p.Result.Content, IsError: p.Result.Failed})
		case p.Call != nil:
			out.Content = append(out.Content, &block{Type: "tool_use", ID: p.Call.ID, Name: models.ToolName(p.Call.Name), Input: wire.Arguments(p.Call.Args)})
		case p.Image != nil:
			out.Content = append(out.Content, &block{Type: "image", Source: &source{"base64", p.Image.MIME, p.Image.Data}})
		case p.Text != "":
			out.Content = append(out.Content, &block{Type: "text", Text: p.Text})
		}
	}
	return out
}
