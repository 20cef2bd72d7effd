package openai

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// request is the body of a request.
type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools,omitempty"`
	ToolChoice          string         `json:"tool_choice,omitempty"`
	ResponseFormat      *format        `json:"response_format,omitempty"`
	MaxTokens           int64          `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64          `json:"max_completion_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// message is a message. Content is a string, a list of contents, or nil.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type content struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string      `json:"type"`
	Function declaration `json:"function"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type format struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"`
}

// encode returns the body for r.
func encode(r models.Request, newNames bool) request {
	out := request{Model: r.Model, Temperature: r.Temperature, Stream: true, StreamOptions: &streamOptions{IncludeUsage: true}}
	if newNames {
		out.MaxCompletionTokens = r.MaxTokens
	} else {
		out.MaxTokens = r.MaxTokens
	}
	if r.System != "" {
		out.Messages = append(out.Messages, message{Role: "system", Content: r.System})
	}
	out.Messages = slices.Grow(out.Messages, len(r.Messages))
	for _, m := range r.Messages {
		if m.Role == models.Model {
			out.Messages = append(out.Messages, fromModel(m))
		} else {
			out.Messages = append(out.Messages, fromUser(m)...)
		}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{Type: "function", Function: declaration{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	if r.NoCalls && len(r.Tools) > 0 {
		out.ToolChoice = "none"
	}
	if r.Result != nil {
		out.ResponseFormat = &format{Type: "json_schema", JSONSchema: jsonSchema{Name: "result", Schema: r.Result, Strict: wire.IsStrict(r.Result)}}
	}
	return out
}

// fromModel returns an answer as a message.
func fromModel(m models.Message) message {
	out, text := message{Role: "assistant"}, ""
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			out.ToolCalls = append(out.ToolCalls, toolCall{ID: p.Call.ID, Type: "function", Function: function{
				Name: models.ToolName(p.Call.Name), Arguments: string(wire.Arguments(p.Call.Args)),
			}})
		case p.Opaque != nil && p.Opaque.Wire == Wire:
			_ = json.Unmarshal(p.Opaque.Data, &out.Reasoning) // what is no text was not made here
		default:
			text += p.Text
		}
	}
	if text != "" || len(out.ToolCalls) == 0 {
		out.Content = text
	}
	return out
}

// fromUser returns the results of calls, each a message of its own, and a message with what else there is.
func fromUser(m models.Message) []message {
	var out []message
	var contents []content
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			out = append(out, result(*p.Result))
		case p.Image != nil:
			address := "data:" + p.Image.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Image.Data)
			contents = append(contents, content{Type: "image_url", ImageURL: &imageURL{URL: address}})
		case p.Text != "":
			contents = append(contents, content{Type: "text", Text: p.Text})
		}
	}
	switch {
	case len(contents) == 1 && contents[0].Type == "text": // understood by every server
		return append(out, message{Role: "user", Content: contents[0].Text})
	case len(contents) > 0:
		return append(out, message{Role: "user", Content: contents})
	case len(out) == 0:
		return []message{{Role: "user", Content: ""}}
	default:
		return out
	}
}

// result returns the result of a call. The protocol has no field for failures.
func result(r models.Result) message {
	text := r.Content
	if r.Failed {
		text = "Error: " + text
	}
	return message{Role: "tool", ToolCallID: r.ID, Content: text}
}
