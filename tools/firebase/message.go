package firebase

import (
	"bytes"
	"encoding/json"

	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// message is a queued message. It stores the encoded text and not the data, which takes many times more memory.
type message struct {
	sub    *subscription
	number uint64
	text   json.RawMessage
	// previous is the part of text with the previous data; nil if there is none.
	previous json.RawMessage
	last     bool
}

// large reports whether a message counts against the budget of large messages.
func (m *message) large() bool { return len(m.text) > MaxSmall }

// params are the parameters of firebase.event (S3-042).
type params struct {
	ID       string
	Type     string
	Data     any
	Previous any // a json.RawMessage is already encoded
	Key      string
	At       string
}

// newMessage encodes params. It returns SIZE_LIMIT_EXCEEDED when the text is too long.
func newMessage(sub *subscription, p params) (*message, error) {
	data, err := encode(p.Data)
	if err != nil {
		return nil, err
	}
	previous, ok := p.Previous.(json.RawMessage)
	if p.Previous != nil && !ok {
		if previous, err = encode(p.Previous); err != nil {
			return nil, err
		}
	}
	m := &message{sub: sub, last: p.Type == Closed}
	if m.text, m.previous = p.encodeWith(data, previous); len(m.text) > MaxMessage {
		return nil, tooLarge(len(m.text))
	}
	return m, nil
}

func tooLarge(size int) error {
	return refusal.New(refusal.SizeLimitExceeded, "an event has %d bytes, at most %d", size, MaxMessage).WithHint("subscribe to less")
}

// encodeWith returns the params as JSON with the already encoded data and previous, and the part of that JSON that holds
// previous.
func (p params) encodeWith(data, previous []byte) (text, previousText json.RawMessage) {
	quoted := func(name, value string) []byte {
		text, _ := encode(value) // a string can always be encoded
		return append([]byte(name), text...)
	}
	parts := [][]byte{quoted(`{"subscriptionId":`, p.ID), quoted(`,"eventType":`, p.Type), []byte(`,"data":`), data, nil, nil, nil, quoted(`,"timestamp":`, p.At), []byte("}")}
	if len(previous) > 0 {
		parts[4], parts[5] = []byte(`,"previousData":`), previous
	}
	if p.Key != "" {
		parts[6] = quoted(`,"key":`, p.Key)
	}
	text = bytes.Join(parts, nil)
	if len(previous) == 0 {
		return text, nil
	}
	from := len(bytes.Join(parts[:3], nil)) + len(data) + len(parts[4])
	return text, text[from : from+len(previous)]
}
