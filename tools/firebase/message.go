package firebase

import (
	"bytes"
	"encoding/json"

	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// message is a message that waits. It keeps its text alone: data as a backend gives it is many times as large.
type message struct {
	of   *subscribed
	no   uint64
	text json.RawMessage
	// previous is where the text has what the client heard before; nil when there is nothing.
	previous json.RawMessage
	last     bool
}

// large reports whether a message shares the room of large ones.
func (m *message) large() bool { return len(m.text) > MaxSmall }

// params are those of firebase.event (S3-042).
type params struct {
	ID       string
	Type     string
	Data     any
	Previous any // json.RawMessage is left as it is
	Key      string
	At       string
}

// newMessage encodes params: SIZE_LIMIT_EXCEEDED when the text is too long.
func newMessage(of *subscribed, p params) (*message, error) {
	data, err := encoded(p.Data)
	if err != nil {
		return nil, err
	}
	previous, ok := p.Previous.(json.RawMessage)
	if p.Previous != nil && !ok {
		if previous, err = encoded(p.Previous); err != nil {
			return nil, err
		}
	}
	m := &message{of: of, last: p.Type == Closed}
	if m.text, m.previous = p.around(data, previous); len(m.text) > MaxMessage {
		return nil, tooLarge(len(m.text))
	}
	return m, nil
}

func tooLarge(size int) error {
	return refusal.New(refusal.SizeLimitExceeded, "an event has %d bytes, at most %d", size, MaxMessage).WithHint("subscribe to less")
}

// around puts the other params around data, and returns where what was there before lies in the text.
func (p params) around(data, previous []byte) (text, at json.RawMessage) {
	quoted := func(name, value string) []byte {
		text, _ := encoded(value) // a text has a form in JSON
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
