package sampling

import (
	"bytes"
	"encoding/json"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// result is the result of sampling/createMessage. Content is a block, or a list of them.
type result struct {
	Content json.RawMessage `json:"content"`
	Model   string          `json:"model"`
	Stop    string          `json:"stopReason"`
}

// said is a block of an answer.
type said struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Answer returns the answer to r in the result of an MCP request. Clients do not say what an answer has used.
func Answer(r models.Request, raw json.RawMessage) (models.Answer, error) {
	var got result
	if err := json.Unmarshal(raw, &got); err != nil {
		return models.Answer{}, malformed()
	}
	blocks, err := blocksOf(got.Content)
	if err != nil {
		return models.Answer{}, err
	}
	answer := wire.NewAnswer(nil)
	useful := false
	for _, b := range blocks {
		useful = useful || b.Type == "text" || b.Type == "tool_use"
		if err := add(answer, b); err != nil {
			return models.Answer{}, err
		}
	}
	if !useful {
		return models.Answer{}, malformed()
	}
	message, err := answer.Message(r)
	return models.Answer{Message: message, Stop: stopOf(got.Stop, answer.Calls()), Model: got.Model}, err
}

func malformed() error {
	return &models.Error{Kind: models.Invalid, Message: "the answer of the MCP client has neither a text nor a call of a tool"}
}

// blocksOf returns the blocks of a content.
func blocksOf(content json.RawMessage) ([]said, error) {
	var one said
	var list []said
	var err error
	if content = bytes.TrimSpace(content); bytes.HasPrefix(content, []byte("[")) {
		err = json.Unmarshal(content, &list)
	} else {
		err = json.Unmarshal(content, &one)
		list = []said{one}
	}
	if err != nil {
		return nil, malformed()
	}
	return list, nil
}

// add adds a text or a call to an answer. An agent has no use for other blocks.
func add(a *wire.Answer, b said) error {
	switch b.Type {
	case "tool_use":
		n, err := a.Call(b.ID, b.Name)
		if err == nil {
			err = a.Args(n, string(b.Input))
		}
		return err
	case "text":
		return a.Text(b.Text)
	default:
		return nil
	}
}

func stopOf(reason string, calls int) models.Stop {
	switch {
	case reason == "maxTokens":
		return models.StopLength
	case calls > 0:
		return models.StopCalls
	case reason == "", reason == "endTurn", reason == "stopSequence":
		return models.StopEnd
	default:
		return models.StopOther
	}
}
