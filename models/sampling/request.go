// Package sampling converts requests to models, and their answers, to MCP sampling: the client that has started an agent asks its
// own model then. MCP has deprecated sampling in its version 2026-07-28 (SEP-2577).
package sampling

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Scheme begins the names of models that the MCP client chooses. What follows is a hint, such as sampling:claude.
const Scheme = "sampling:"

// Named reports whether a model is one that the MCP client chooses.
func Named(model string) bool { return strings.HasPrefix(model, Scheme) }

var hintForm = regexp.MustCompile(`^[A-Za-z0-9._:/-]{0,100}$`)

// ParseName returns the hint in the name of a model that begins with [Scheme]; it may be empty.
func ParseName(model string) (hint string, err error) {
	hint = strings.TrimPrefix(model, Scheme)
	if !hintForm.MatchString(hint) {
		return "", fault.New(fault.ValidationError, "%q is no hint for a model", hint).WithField("agent.model").
			WithHint("write %s, or %sNAME, where NAME has at most 100 letters, digits and characters of ._:/-", Scheme, Scheme)
	}
	return hint, nil
}

// MaxParams limits the bytes of a request.
const MaxParams = 1 << 20

// params are the parameters of sampling/createMessage.
type params struct {
	Messages     []message    `json:"messages"`
	Preferences  *preferences `json:"modelPreferences,omitempty"`
	System       string       `json:"systemPrompt,omitempty"`
	Context      string       `json:"includeContext"`
	Temperature  *float64     `json:"temperature,omitempty"`
	MaxTokens    int64        `json:"maxTokens"`
	Tools        []tool       `json:"tools,omitempty"`
	ToolsAllowed *toolChoice  `json:"toolChoice,omitempty"`
}

type preferences struct {
	Hints []hint `json:"hints"`
}

type hint struct {
	Name string `json:"name"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"`
}

type toolChoice struct {
	Mode string `json:"mode"`
}

// message is a message. Content is a block, or a list of them: a client without tools accepts only a block.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// block is a part of a message.
type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Data      []byte          `json:"data,omitempty"`
	MIME      string          `json:"mimeType,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"toolUseId,omitempty"`
	Content   []*block        `json:"content,omitempty"`
	IsError   bool            `json:"isError,omitempty"`
}

// inWords asks for a structured answer, which sampling does not have.
const inWords = "Your final answer is one JSON value, without a code block or other text around it, that is valid for this JSON Schema:\n"

// Params returns the parameters of the MCP request for r, whose model is a hint. It returns TooLong for more than MaxParams bytes.
func Params(r models.Request) (json.RawMessage, error) {
	p := params{System: r.System, Context: "none", Temperature: r.Temperature, MaxTokens: r.MaxTokens}
	if r.Result != nil {
		p.System = strings.TrimLeft(p.System+"\n\n"+inWords+string(r.Result), "\n")
	}
	if r.Model != "" {
		p.Preferences = &preferences{[]hint{{r.Model}}}
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, messagesOf(m)...)
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, tool(t))
	}
	if r.NoCalls && len(p.Tools) > 0 {
		p.ToolsAllowed = &toolChoice{"none"}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, &models.Error{Kind: models.Invalid, Message: "the request cannot be encoded"}
	}
	if len(raw) > MaxParams {
		return nil, &models.Error{Kind: models.TooLong, Message: "the conversation is too long for a request to an MCP client"}
	}
	return raw, nil
}

// Excerpt returns the parameters of the MCP request for r with at most limit bytes of its newest text instead of the conversation.
func Excerpt(r models.Request, limit int) (json.RawMessage, error) {
	short := models.Request{Model: r.Model, MaxTokens: r.MaxTokens, Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: newest(r, limit)}}}}}
	return Params(short)
}

// newest returns the beginning of the newest text or result that the model is to answer.
func newest(r models.Request, limit int) string {
	text := ""
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				text = p.Result.Content
			} else if p.Text != "" {
				text = p.Text
			}
		}
	}
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// HintOf returns the hint in the parameters of a request.
func HintOf(raw json.RawMessage) string {
	var p params
	if json.Unmarshal(raw, &p) != nil || p.Preferences == nil || len(p.Preferences.Hints) == 0 {
		return ""
	}
	return p.Preferences.Hints[0].Name
}

// messagesOf returns a message as those of MCP: a message with results of tools has nothing else.
func messagesOf(m models.Message) (all []message) {
	role := "user"
	if m.Role == models.Model {
		role = "assistant"
	}
	var results, others []*block
	for _, p := range m.Parts {
		switch b := blockOf(p); {
		case b == nil:
		case p.Result != nil:
			results = append(results, b)
		case p.Text != "" && len(others) > 0 && others[len(others)-1].Text != nil:
			joined := *others[len(others)-1].Text + "\n\n" + p.Text
			others[len(others)-1].Text = &joined
		default:
			others = append(others, b)
		}
	}
	for _, blocks := range [][]*block{results, others} {
		switch len(blocks) {
		case 0:
		case 1:
			all = append(all, message{role, blocks[0]})
		default:
			all = append(all, message{role, blocks})
		}
	}
	if len(all) == 0 { // the roles of messages alternate
		all = append(all, message{role, &block{Type: "text", Text: new(string)}})
	}
	return all
}

// blockOf returns a part as a block; nil for a part that MCP has no block for.
func blockOf(p models.Part) *block {
	switch {
	case p.Result != nil:
		return &block{Type: "tool_result", ToolUseID: p.Result.ID, Content: []*block{{Type: "text", Text: &p.Result.Content}}, IsError: p.Result.Failed}
	case p.Call != nil:
		return &block{Type: "tool_use", ID: p.Call.ID, Name: models.ToolName(p.Call.Name), Input: wire.Arguments(p.Call.Args)}
	case p.Image != nil:
		return &block{Type: "image", MIME: p.Image.MIME, Data: p.Image.Data}
	case p.Text != "":
		return &block{Type: "text", Text: &p.Text}
	default:
		return nil
	}
}
