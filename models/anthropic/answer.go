package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// event is an event of the stream.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		ID    string `json:"id"`
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block json.RawMessage `json:"content_block"`
	Delta delta           `json:"delta"`
	Usage usage           `json:"usage"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	StopReason  string `json:"stop_reason"`
}

// usage counts tokens so far. What is not said has not changed.
type usage struct {
	Input      *wire.Tokens `json:"input_tokens"`
	CacheRead  *wire.Tokens `json:"cache_read_input_tokens"`
	CacheWrite *wire.Tokens `json:"cache_creation_input_tokens"`
	Output     *wire.Tokens `json:"output_tokens"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *usage) UnmarshalJSON(data []byte) error {
	type fields usage
	return wire.Lenient(data, (*fields)(u))
}

// content is the beginning of a block.
type content struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
}

// thinking is a block of reasoning, as it is sent back.
type thinking struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// fold builds an answer from events.
type fold struct {
	answer    *wire.Answer
	id, model string
	usage     models.Usage
	stop      string
	// open is the block that grows. number is its number if it is a call, and written reports whether the call has
	// arguments; text and signature are what has arrived of reasoning.
	open            content
	number          int
	written         bool
	text, signature []byte
}

func newFold(hear func(models.Delta)) *fold { return &fold{answer: wire.NewAnswer(hear)} }

// Complete implements wire.Fold. The usage arrives with the reason.
func (f *fold) Complete(bool) bool { return f.stop != "" }

// Event implements wire.Fold.
func (f *fold) Event(e sse.Event) (over bool, err error) {
	var ev event
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return false, err
	}
	switch ev.Type {
	case "message_start":
		f.id, f.model = ev.Message.ID, ev.Message.Model
		f.count(ev.Message.Usage)
	case "content_block_start":
		return false, f.start(ev)
	case "content_block_delta":
		return false, f.delta(ev.Delta)
	case "content_block_stop":
		return false, f.end()
	case "message_delta":
		f.stop = cmp.Or(ev.Delta.StopReason, f.stop)
		f.count(ev.Usage)
	case "message_stop":
		return true, nil
	case "error":
		failure := explain(e.Data)
		return false, &models.Error{Kind: cmp.Or(failure.Kind, models.Transport), Message: failure.Message}
	}
	return false, nil
}

func (f *fold) count(u usage) {
	set(&f.usage.Input, u.Input)
	set(&f.usage.CacheRead, u.CacheRead)
	set(&f.usage.CacheWrite, u.CacheWrite)
	set(&f.usage.Output, u.Output)
}

func set(to *int64, from *wire.Tokens) {
	if from != nil {
		*to = int64(*from)
	}
}

// start begins a block. Blocks of unknown types are left out.
func (f *fold) start(ev event) (err error) {
	f.open = content{}
	if err := json.Unmarshal(ev.Block, &f.open); err != nil {
		return fmt.Errorf("content_block: %w", err)
	}
	switch f.open.Type {
	case "text":
		return f.answer.Text(f.open.Text)
	case "tool_use":
		f.written = false
		f.number, err = f.answer.Call(f.open.ID, f.open.Name)
	case "thinking":
		f.text, f.signature = []byte(f.open.Thinking), []byte(f.open.Signature)
	case "redacted_thinking":
		return f.answer.Opaque(Wire, ev.Block)
	}
	return err
}

// delta adds to the open block.
func (f *fold) delta(d delta) error {
	switch f.open.Type + " " + d.Type {
	case "text text_delta":
		return f.answer.Text(d.Text)
	case "tool_use input_json_delta":
		f.written = f.written || d.PartialJSON != ""
		return f.answer.Args(f.number, d.PartialJSON)
	case "thinking thinking_delta":
		f.text = append(f.text, d.Thinking...)
		return f.answer.Reasoning(d.Thinking)
	case "thinking signature_delta":
		f.signature = append(f.signature, d.Signature...)
		return f.answer.Count(len(d.Signature))
	default:
		return nil
	}
}

// end closes the open block. A call may have its arguments from the beginning.
func (f *fold) end() error {
	open := f.open
	f.open = content{}
	switch {
	case open.Type == "tool_use" && !f.written && len(open.Input) > len("{}"):
		return f.answer.Args(f.number, string(open.Input))
	case open.Type == "thinking":
		data, err := json.Marshal(thinking{open.Type, string(f.text), string(f.signature)})
		if err != nil {
			return err
		}
		return f.answer.Opaque(Wire, data)
	}
	return nil
}

// result returns the answer to r.
func (f *fold) result(r models.Request) (models.Answer, error) {
	message, err := f.answer.Message(r)
	if err != nil {
		return models.Answer{}, err
	}
	return models.Answer{Message: message, Stop: f.reason(), Usage: f.usage, Model: f.model, ID: f.id}, nil
}

// reason returns why the answer ended.
func (f *fold) reason() models.Stop {
	switch f.stop {
	case "end_turn", "stop_sequence":
		return models.StopEnd
	case "tool_use":
		return models.StopCalls
	case "max_tokens", "model_context_window_exceeded":
		return models.StopLength
	case "refusal":
		return models.StopRefused
	default:
		return models.StopOther
	}
}
