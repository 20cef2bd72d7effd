package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/models"
)

// Answer assembles the parts of an answer and bounds their size.
type Answer struct {
	hear  func(models.Delta)
	parts []*part
	size  int
}

// part is a part that grows: a text, a call with its arguments, or an opaque part.
type part struct {
	text   strings.Builder
	call   *models.Call
	opaque *models.Opaque
}

// NewAnswer returns an empty answer. It calls hear, which may be nil, with each piece.
func NewAnswer(hear func(models.Delta)) *Answer {
	if hear == nil {
		hear = func(models.Delta) {}
	}
	return &Answer{hear: hear}
}

// Text continues the text. It begins a new part behind a call or an opaque part.
func (a *Answer) Text(text string) error {
	if text == "" {
		return nil
	}
	if last := a.last(); last == nil || last.call != nil || last.opaque != nil {
		a.parts = append(a.parts, &part{})
	}
	if err := a.grow(a.last(), text); err != nil {
		return err
	}
	a.hear(models.Delta{Text: text})
	return nil
}

// Call begins a call and returns its number. See Identify for id and name.
func (a *Answer) Call(id, name string) (int, error) {
	a.parts = append(a.parts, &part{call: &models.Call{}})
	number := len(a.parts) - 1
	return number, a.Identify(number, id, name)
}

// Identify sets the id and the name of a call that has none yet. Both may be "" until they are known.
func (a *Answer) Identify(number int, id, name string) error {
	call := a.parts[number].call
	if call.Name == "" && name != "" {
		call.Name = name
		a.hear(models.Delta{Call: name})
	}
	call.ID = cmp.Or(call.ID, id)
	return a.Count(len(id) + len(name))
}

// Args continues the arguments of a call.
func (a *Answer) Args(number int, text string) error { return a.grow(a.parts[number], text) }

// Reasoning counts a piece of reasoning. Nobody sees it, but it is billed: it begins the answer as a text does.
func (a *Answer) Reasoning(text string) error {
	if text == "" {
		return nil
	}
	a.hear(models.Delta{})
	return a.Count(len(text))
}

// Opaque adds an opaque part.
func (a *Answer) Opaque(wire string, data json.RawMessage) error {
	a.parts = append(a.parts, &part{opaque: &models.Opaque{Wire: wire, Data: data}})
	return a.Count(len(data))
}

// Calls returns the number of calls.
func (a *Answer) Calls() (n int) {
	for _, p := range a.parts {
		if p.call != nil {
			n++
		}
	}
	return n
}

// Message returns the message of the answer to r. Calls get an id from their position if they have none, or one that
// the conversation has already. A call without a name is an error.
func (a *Answer) Message(r models.Request) (models.Message, error) {
	message, used, calls := models.Message{Role: models.Model}, ids(r), 0
	for _, p := range a.parts {
		switch {
		case p.opaque != nil:
			message.Parts = append(message.Parts, models.Part{Opaque: p.opaque})
		case p.call != nil && p.call.Name == "":
			return models.Message{}, &models.Error{Kind: models.Transport, Message: "the answer has a call without a name"}
		case p.call != nil:
			call := models.Call{ID: p.call.ID, Name: p.call.Name, Args: p.text.String()}
			calls++
			for n := calls; call.ID == "" || used[call.ID]; n++ {
				call.ID = models.CallID(r, n)
			}
			used[call.ID] = true
			message.Parts = append(message.Parts, models.Part{Call: &call})
		default:
			message.Parts = append(message.Parts, models.Part{Text: p.text.String()})
		}
	}
	return message, nil
}

func (a *Answer) last() *part {
	if len(a.parts) == 0 {
		return nil
	}
	return a.parts[len(a.parts)-1]
}

func (a *Answer) grow(p *part, text string) error {
	p.text.WriteString(text)
	return a.Count(len(text))
}

// maxParts limits the parts of an answer.
const maxParts = 10_000

// Count counts bytes that belong to the answer, and that a provider keeps until their part is complete. An opaque part that
// is made of them counts once more. It returns an error when the answer exceeds a limit.
func (a *Answer) Count(bytes int) error {
	switch a.size += bytes; {
	case a.size > MaxAnswer:
		return tooLarge(fmt.Sprintf("it has more than %d bytes", MaxAnswer))
	case len(a.parts) > maxParts:
		return tooLarge(fmt.Sprintf("it has more than %d parts", maxParts))
	default:
		return nil
	}
}

// ids returns the ids of all calls in a conversation.
func ids(r models.Request) map[string]bool {
	used := map[string]bool{}
	for _, message := range r.Messages {
		for _, p := range message.Parts {
			if p.Call != nil {
				used[p.Call.ID] = true
			}
		}
	}
	return used
}

// ResultsFirst returns the parts of a message with the results of calls in front of the others, which is the order that
// the protocols require.
func ResultsFirst(parts []models.Part) []models.Part {
	var results, others []models.Part
	for _, p := range parts {
		if p.Result != nil {
			results = append(results, p)
		} else {
			others = append(others, p)
		}
	}
	return append(results, others...)
}

// Arguments returns the arguments of a call as the JSON object that protocols and templates of models require. Text that
// is no object becomes the field invalid_arguments, so that the model sees what it wrote.
func Arguments(args string) json.RawMessage {
	text := strings.TrimSpace(args)
	if text == "" {
		return json.RawMessage("{}")
	}
	if raw := json.RawMessage(args); text[0] == '{' && json.Valid(raw) { // without decoding: a request has the arguments of all its turns
		return raw
	}
	wrapped, err := marshal(map[string]string{"invalid_arguments": args})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

var positional = regexp.MustCompile(`^call_\d+_\d+$`)

// IsPositional reports whether an id of a call is that of its position, which no provider has given.
func IsPositional(id string) bool { return positional.MatchString(id) }
