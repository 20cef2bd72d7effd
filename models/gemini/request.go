package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// request is the body of a request.
type request struct {
	SystemInstruction *content  `json:"systemInstruction,omitempty"`
	Contents          []content `json:"contents"`
	Tools             []tools   `json:"tools,omitempty"`
	ToolConfig        *choices  `json:"toolConfig,omitempty"`
	GenerationConfig  *settings `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string  `json:"role,omitempty"`
	Parts []*part `json:"parts"`
}

// part is a part of a message, in requests and in answers.
type part struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature json.RawMessage   `json:"thoughtSignature,omitempty"`
}

type blob struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"` // as base64
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type tools struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// choices says which tools the model may call.
type choices struct {
	FunctionCalling callingMode `json:"functionCallingConfig"`
}

type callingMode struct {
	Mode string `json:"mode"`
}

type settings struct {
	MaxOutputTokens    int64           `json:"maxOutputTokens,omitempty"`
	Temperature        *float64        `json:"temperature,omitempty"`
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
}

// inWords asks for a structured answer.
const inWords = "Your final answer is one JSON value, without a code block or other text around it, that is valid for this JSON Schema:\n"

// encode returns the body for r.
func encode(r models.Request) request {
	out, config := request{Contents: []content{}}, settings{MaxOutputTokens: r.MaxTokens, Temperature: r.Temperature}
	system := r.System
	switch {
	case r.Result != nil && len(r.Tools) > 0:
		system = strings.TrimLeft(system+"\n\n"+inWords+string(r.Result), "\n")
	case r.Result != nil:
		config.ResponseMIMEType, config.ResponseJSONSchema = "application/json", r.Result
	}
	if system != "" {
		out.SystemInstruction = &content{Parts: []*part{{Text: &system}}}
	}
	for _, m := range r.Messages {
		encoded := encodeMessage(m)
		if wantsSignatures(r.Model) {
			signForeign(encoded.Parts)
		}
		if len(encoded.Parts) > 0 {
			out.Contents = append(out.Contents, encoded)
		}
	}
	if len(r.Tools) > 0 {
		out.Tools = []tools{{declarations(r.Tools)}}
		if r.NoCalls {
			out.ToolConfig = &choices{callingMode{"NONE"}}
		}
	}
	if config.MaxOutputTokens != 0 || config.Temperature != nil || config.ResponseJSONSchema != nil {
		out.GenerationConfig = &config
	}
	return out
}

func declarations(list []models.Tool) []declaration {
	out := make([]declaration, len(list))
	for i, t := range list {
		out[i] = declaration{Name: t.Name, Description: t.Description, Parameters: t.Schema}
	}
	return out
}

// encodeMessage returns a message. A signature goes with the part behind it.
func encodeMessage(m models.Message) content {
	out := content{Role: "user"}
	if m.Role == models.Model {
		out.Role = "model"
	}
	var signature json.RawMessage
	for _, p := range wire.ResultsFirst(m.Parts) {
		if p.Opaque != nil && p.Opaque.Wire == Wire {
			out.Parts = append(out.Parts, signed(signature)...)
			signature = p.Opaque.Data
		} else if encoded := encodePart(p); encoded != nil {
			encoded.ThoughtSignature, signature = signature, nil
			out.Parts = append(out.Parts, encoded)
		}
	}
	out.Parts = append(out.Parts, signed(signature)...)
	return out
}

// signed returns an empty part with a signature to which no other part belongs.
func signed(signature json.RawMessage) []*part {
	if signature == nil {
		return nil
	}
	return []*part{{Text: new(""), ThoughtSignature: signature}}
}

// unchecked is the signature that the documentation gives for calls of other models, whose signatures do not exist.
const unchecked = `"skip_thought_signature_validator"`

// wantsSignatures reports whether a model refuses calls without signatures, as those since Gemini 3 do.
func wantsSignatures(model string) bool {
	return !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2")
}

// signForeign signs the first call of a message that has no signature: another model wrote it.
func signForeign(parts []*part) {
	if slices.ContainsFunc(parts, func(p *part) bool { return p.ThoughtSignature != nil }) {
		return
	}
	if i := slices.IndexFunc(parts, func(p *part) bool { return p.FunctionCall != nil }); i >= 0 {
		parts[i].ThoughtSignature = json.RawMessage(unchecked)
	}
}

// encodePart returns a part, or nil for one that the protocol does not have. Ids that the provider did not give are left
// out.
func encodePart(p models.Part) *part {
	switch {
	case p.Call != nil:
		return &part{FunctionCall: &functionCall{ID: given(p.Call.ID), Name: models.ToolName(p.Call.Name), Args: wire.Arguments(p.Call.Args)}}
	case p.Result != nil:
		field := "output"
		if p.Result.Failed {
			field = "error"
		}
		return &part{FunctionResponse: &functionResponse{
			ID: given(p.Result.ID), Name: models.ToolName(p.Result.Name), Response: map[string]string{field: p.Result.Content},
		}}
	case p.Image != nil:
		return &part{InlineData: &blob{p.Image.MIME, p.Image.Data}}
	case p.Text != "":
		return &part{Text: &p.Text}
	default:
		return nil
	}
}

func given(id string) string {
	if wire.IsPositional(id) {
		return ""
	}
	return id
}
