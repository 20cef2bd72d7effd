package openai

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// chunk is an event of the stream.
type chunk struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   string      `json:"content"`
	Refusal   string      `json:"refusal"`
	Reasoning string      `json:"reasoning_content"`
	ToolCalls []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     wire.Tokens `json:"prompt_tokens"`
	Completion wire.Tokens `json:"completion_tokens"`
	Details    struct {
		Cached  wire.Tokens `json:"cached_tokens"`
		Written wire.Tokens `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
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
	refused   bool
	usage     *usage
	reasoning []byte
	// calls has the calls by their index on the wire. latest is the index of the last piece.
	calls  map[int]begun
	latest int
}

// begun is a call that has begun: its number in the answer.
type begun struct {
	number int
	id     string
}

func newFold(hear func(models.Delta)) *fold {
	return &fold{answer: wire.NewAnswer(hear), calls: map[int]begun{}, latest: -1}
}

// Complete implements wire.Fold. Usage comes behind the reason, and not from all servers.
func (f *fold) Complete(ended bool) bool { return f.finish != "" && (ended || f.usage != nil) }

// Event implements wire.Fold.
func (f *fold) Event(e sse.Event) (over bool, err error) {
	if string(e.Data) == "[DONE]" {
		return true, nil
	}
	var c chunk
	if err := json.Unmarshal(e.Data, &c); err != nil {
		return false, err
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || c.Object == "error" {
		return false, inStream(e.Data)
	}
	f.id, f.model = cmp.Or(f.id, c.ID), cmp.Or(f.model, c.Model)
	if c.Usage != nil {
		f.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index == 0 {
			f.finish = cmp.Or(choice.FinishReason, f.finish)
			if err := f.delta(choice.Delta); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// delta adds a piece of the answer.
func (f *fold) delta(d delta) error {
	f.refused = f.refused || d.Refusal != ""
	f.reasoning = append(f.reasoning, d.Reasoning...)
	if err := errors.Join(f.answer.Reasoning(d.Reasoning), f.answer.Text(d.Content+d.Refusal)); err != nil {
		return err
	}
	for _, call := range d.ToolCalls {
		if err := f.call(call); err != nil {
			return err
		}
	}
	return nil
}

// call adds a piece of a call.
func (f *fold) call(d callDelta) error {
	index, number, err := f.begin(d)
	if err != nil {
		return err
	}
	f.latest = index
	if err := f.answer.Identify(number, d.ID, d.Function.Name); err != nil {
		return err
	}
	return f.answer.Args(number, d.Function.Arguments)
}

// begin returns the index and the number of the call that a piece belongs to. Some servers leave out the index, or send
// 0 for each call: then a new id begins a new call, or without ids a name.
func (f *fold) begin(d callDelta) (index, number int, err error) {
	index = f.latest
	if d.Index != nil {
		index = *d.Index
	}
	known, ok := f.calls[index]
	another := d.ID != "" && known.id != "" && d.ID != known.id || d.Index == nil && d.ID == "" && d.Function.Name != ""
	if ok && !another {
		f.calls[index] = begun{known.number, cmp.Or(known.id, d.ID)}
		return index, known.number, nil
	}
	if d.Index == nil {
		index = f.latest + 1
	}
	number, err = f.answer.Call(d.ID, d.Function.Name)
	f.calls[index] = begun{number, d.ID}
	return index, number, err
}

// result returns the answer to r.
func (f *fold) result(r models.Request) (models.Answer, error) {
	message, err := f.answer.Message(r)
	if err != nil {
		return models.Answer{}, err
	}
	a := models.Answer{Message: message, Stop: f.stop(), Model: f.model, ID: f.id}
	if f.answer.Calls() > 0 && len(f.reasoning) > 0 {
		if data, err := json.Marshal(string(f.reasoning)); err == nil {
			part := models.Part{Opaque: &models.Opaque{Wire: Wire, Data: data}}
			a.Message.Parts = append([]models.Part{part}, a.Message.Parts...)
		}
	}
	if u := f.usage; u != nil {
		a.Usage = models.Usage{
			Input:     int64(max(0, u.Prompt-u.Details.Cached-u.Details.Written)),
			CacheRead: int64(u.Details.Cached), CacheWrite: int64(u.Details.Written), Output: int64(u.Completion),
		}
	}
	return a, nil
}

// stop returns why the answer ended. Some servers end an answer with calls with the reason stop.
func (f *fold) stop() models.Stop {
	switch calls := f.answer.Calls() > 0; {
	case f.finish == "content_filter", f.refused:
		return models.StopRefused
	case f.finish == "length":
		return models.StopLength
	case calls && (f.finish == "stop" || f.finish == "tool_calls" || f.finish == "function_call"):
		return models.StopCalls
	case f.finish == "stop" || f.finish == "tool_calls":
		return models.StopEnd
	default:
		return models.StopOther
	}
}
