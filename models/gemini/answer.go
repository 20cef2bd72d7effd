package gemini

import (
	"cmp"
	"encoding/json"

	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// chunk is an event of the stream.
type chunk struct {
	Candidates []struct {
		Index        int     `json:"index"`
		Content      content `json:"content"`
		FinishReason string  `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage        *usage   `json:"usageMetadata"`
	ModelVersion string   `json:"modelVersion"`
	ResponseID   string   `json:"responseId"`
	Error        *failure `json:"error"`
}

type usage struct {
	Prompt     wire.Tokens `json:"promptTokenCount"`
	ToolPrompt wire.Tokens `json:"toolUsePromptTokenCount"`
	Cached     wire.Tokens `json:"cachedContentTokenCount"`
	Candidates wire.Tokens `json:"candidatesTokenCount"`
	Thoughts   wire.Tokens `json:"thoughtsTokenCount"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *usage) UnmarshalJSON(data []byte) error {
	type fields usage
	return wire.Lenient(data, (*fields)(u))
}

// fold builds an answer from chunks.
type fold struct {
	answer    *wire.Answer
	id, model string
	finish    string
	blocked   bool
	usage     usage
}

func newFold(hear func(models.Delta)) *fold { return &fold{answer: wire.NewAnswer(hear)} }

// Complete implements wire.Fold. The usage arrives with the reason.
func (f *fold) Complete(bool) bool { return f.finish != "" || f.blocked }

// Event implements wire.Fold. The stream has no last event: it ends.
func (f *fold) Event(e sse.Event) (over bool, err error) {
	var c chunk
	if err := json.Unmarshal(e.Data, &c); err != nil {
		return false, err
	}
	if c.Error != nil {
		return false, c.Error.inStream()
	}
	f.id, f.model = cmp.Or(f.id, c.ResponseID), cmp.Or(f.model, c.ModelVersion)
	f.blocked = f.blocked || c.PromptFeedback.BlockReason != ""
	if c.Usage != nil {
		f.usage = *c.Usage
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 {
			continue
		}
		f.finish = cmp.Or(candidate.FinishReason, f.finish)
		for _, p := range candidate.Content.Parts {
			if err := f.part(p); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// part adds a part. Summaries of thoughts are left out, but not their signatures.
func (f *fold) part(p *part) error {
	if p == nil {
		return nil
	}
	if len(p.ThoughtSignature) > 0 && string(p.ThoughtSignature) != "null" {
		if err := f.answer.Opaque(Wire, p.ThoughtSignature); err != nil {
			return err
		}
	}
	switch {
	case p.FunctionCall != nil:
		number, err := f.answer.Call(p.FunctionCall.ID, p.FunctionCall.Name)
		if err != nil {
			return err
		}
		return f.answer.Args(number, string(p.FunctionCall.Args))
	case p.Text != nil && p.Thought:
		return f.answer.Reasoning(*p.Text)
	case p.Text != nil:
		return f.answer.Text(*p.Text)
	default:
		return nil
	}
}

// result returns the answer to r.
func (f *fold) result(r models.Request) (models.Answer, error) {
	message, err := f.answer.Message(r)
	if err != nil {
		return models.Answer{}, err
	}
	u := f.usage
	return models.Answer{
		Message: message, Stop: f.stop(), Model: f.model, ID: f.id,
		Usage: models.Usage{
			Input: int64(max(0, u.Prompt+u.ToolPrompt-u.Cached)), CacheRead: int64(u.Cached), Output: int64(u.Candidates + u.Thoughts),
		},
	}, nil
}

// stop returns why the answer ended.
func (f *fold) stop() models.Stop {
	switch f.finish {
	case "STOP":
		if f.answer.Calls() > 0 {
			return models.StopCalls
		}
		return models.StopEnd
	case "MAX_TOKENS":
		return models.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return models.StopRefused
	default:
		if f.blocked {
			return models.StopRefused
		}
		return models.StopOther
	}
}
