package messages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Types are the types of messages that have a meaning. Others are words of the same form.
func Types() []string {
	return []string{"task", "status", "learning", "patch", "consensus", "system", "error", "discovery"}
}

// DefaultType is the type of a message that names none.
const DefaultType = "status"

var typeForm = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// Message is the envelope of a message without a signature: what one would add is in the log, which knows who made the call.
type Message struct {
	// ID is "MSG_" and 26 characters. It stands for the call or the key that has sent the message, and sorts by nothing;
	// Position does.
	ID string    `json:"message_id"`
	At time.Time `json:"at"`
	// Sender is who the credential of the sender says it is.
	Sender string `json:"sender"`
	Type   string `json:"type"`
	// Priority is 0 to 4, 4 being the most urgent.
	Priority  int       `json:"priority"`
	ExpiresAt time.Time `json:"expires_at"`
	// Correlation is the same for all messages of a conversation: that of a request, or the id of its first message.
	Correlation string `json:"correlation_id,omitempty"`
	// ReplyTo is the message that this one answers.
	ReplyTo string `json:"reply_to,omitempty"`
	// To are the addresses; Exclude are those that groups and all leave out.
	To      []string `json:"to"`
	Exclude []string `json:"exclude,omitempty"`
	// Payload is any JSON value.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Position is where it stands in the order of all messages, the cursor of readers.
	Position uint64 `json:"position,omitempty"`
	// Digest tells whether a message that comes again under its id is the same one.
	Digest string `json:"digest,omitempty"`
}

// UnmarshalJSON also reads what earlier versions wrote, whose messages had an id.
func (m *Message) UnmarshalJSON(data []byte) error {
	type plain Message
	read := struct {
		*plain

		Former string `json:"id"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err //nolint:wrapcheck // it is that of encoding/json, as for every other type
	}
	m.ID = cmp.Or(m.ID, read.Former)
	return nil
}

// Draft is what a sender says of a message.
type Draft struct {
	// Key makes a repeated request the same message: a sender uses a key once. Empty makes every request one of its own.
	Key  string   `json:"key,omitempty"`
	To   []string `json:"to,omitempty"`
	Type string   `json:"type,omitempty"`
	// Priority is 0 to 4; nil is 2.
	Priority *int `json:"priority,omitempty"`
	// TTL is how long it lives; 0 is a day.
	TTL         time.Duration   `json:"ttl,omitempty"`
	Correlation string          `json:"correlation_id,omitempty"`
	ReplyTo     string          `json:"reply_to,omitempty"`
	Exclude     []string        `json:"exclude,omitempty"`
	Payload     json.RawMessage `json:"payload,omitempty"`
}

// Message makes a message of a draft. Errors name the field: REQUIRED_FIELD, INVALID_FORMAT, VALIDATION_ERROR, the last
// with the reason SIZE_LIMIT_EXCEEDED for one of more than 256 KiB.
func (d Draft) Message(sender string, now time.Time) (Message, error) {
	if err := d.check(); err != nil {
		return Message{}, err
	}
	var payload bytes.Buffer
	if err := json.Compact(&payload, d.Payload); err != nil {
		return Message{}, fault.Wrap(fault.InvalidFormat, err, "is no JSON").WithField("payload")
	}
	m := Message{
		ID: events.NewMessageID(now), At: events.Time(now), Sender: sender, Type: DefaultType, Priority: DefaultPriority,
		Correlation: d.Correlation, ReplyTo: d.ReplyTo, To: distinct(d.To), Exclude: distinct(d.Exclude), Payload: payload.Bytes(),
	}
	if d.Key != "" {
		m.ID = events.KeyedMessageID(sender + "\x00" + d.Key)
	}
	if d.Type != "" {
		m.Type = d.Type
	}
	if d.Priority != nil {
		m.Priority = *d.Priority
	}
	m.ExpiresAt = m.At.Add(DefaultTTL)
	if d.TTL != 0 {
		m.ExpiresAt = m.At.Add(d.TTL)
	}
	m.Digest = d.digest()
	if size := m.Size(); size > MaxSize {
		return Message{}, fault.New(fault.ValidationError, "the message has %d bytes, the limit is %d", size, MaxSize).
			WithField("payload").WithReason("SIZE_LIMIT_EXCEEDED").WithHint("put it into a file and send the path")
	}
	return m, nil
}

func (d *Draft) check() error {
	if len(d.Payload) == 0 {
		return fault.New(fault.RequiredField, "is required").WithField("payload")
	}
	if len(d.Key) > maxKey {
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(d.Key), maxKey).WithField("key")
	}
	if err := checkType(d.Type); err != nil {
		return err
	}
	if d.Priority != nil && (*d.Priority < 0 || *d.Priority > MaxPriority) {
		return fault.New(fault.ValidationError, "%d is no priority", *d.Priority).WithField("priority").
			WithHint("use 0 to %d; %d is the most urgent", MaxPriority, MaxPriority)
	}
	if d.TTL != 0 && (d.TTL < MinTTL || d.TTL > MaxTTL) {
		return fault.New(fault.ValidationError, "%s is no life of a message", d.TTL).WithField("ttl").
			WithHint("use %s to %s", MinTTL, MaxTTL)
	}
	if err := checkCorrelation(d.Correlation); err != nil {
		return err
	}
	if d.ReplyTo != "" && !events.IsMessageID(d.ReplyTo) {
		return fault.New(fault.InvalidFormat, "%q is no message", clip(d.ReplyTo)).WithField("reply_to").WithHint("a message is MSG_ and 26 characters")
	}
	return d.checkAddresses()
}

// checkType returns INVALID_FORMAT for what is no type of a message; empty is the usual one.
func checkType(text string) error {
	if text == "" || len(text) <= maxType && typeForm.MatchString(text) {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is no type of a message", clip(text)).WithField("type").
		WithHint("use one of %s, or another word of a to z, 0 to 9, '.', '_' and '-'", strings.Join(Types(), ", "))
}

// checkCorrelation returns VALIDATION_ERROR for what no conversation is called: any text is an id of one, but for its length.
func checkCorrelation(text string) error {
	if len(text) <= maxCorrelation {
		return nil
	}
	return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(text), maxCorrelation).WithField("correlation_id")
}

// CheckIDs returns INVALID_FORMAT when one of the texts is no id of a message, which no message can have.
func CheckIDs(texts []string) error {
	for _, text := range texts {
		if !events.IsMessageID(text) {
			return fault.New(fault.InvalidFormat, "%q is no message", clip(text)).WithField("message_ids").WithHint("a message is MSG_ and 26 characters")
		}
	}
	return nil
}

func (d *Draft) checkAddresses() error {
	if len(d.To) == 0 && d.ReplyTo == "" {
		return fault.New(fault.RequiredField, "is required").WithField("to").WithHint("name recipients, or the message that this one answers")
	}
	if len(d.To) > MaxRecipients {
		return fault.New(fault.ValidationError, "there are %d recipients, the limit is %d", len(d.To), MaxRecipients).WithField("to").
			WithHint("let them join a group, or send it to all")
	}
	if len(d.Exclude) > MaxExcluded {
		return fault.New(fault.ValidationError, "there are %d, the limit is %d", len(d.Exclude), MaxExcluded).WithField("exclude")
	}
	for _, to := range d.To {
		if err := CheckAddress(to); err != nil {
			return fault.From(err).WithField("to")
		}
	}
	for _, who := range d.Exclude {
		if err := CheckIdentity(who); err != nil {
			return fault.New(fault.InvalidFormat, "%q is neither an agent nor a user", clip(who)).WithField("exclude").
				WithHint("use agent:NAME or user:NAME")
		}
	}
	return nil
}

// digest is that of all that the sender says. The order of recipients counts.
func (d Draft) digest() string {
	text, _ := json.Marshal(d) // it has been checked
	sum := sha256.Sum256(text)
	const enough = 16
	return hex.EncodeToString(sum[:enough])
}

// Size is the number of bytes of the message as JSON.
func (m *Message) Size() int {
	text, _ := json.Marshal(m) // texts, numbers and JSON alone
	return len(text)
}

// Alive reports whether the message has not expired.
func (m *Message) Alive(now time.Time) bool { return now.Before(m.ExpiresAt) }

// Addresses reports whether a message is for somebody, as far as itself says it; in tells whether they are in a group.
// A message to a group or to all is not for its sender.
func (m *Message) Addresses(who string, in func(group string) bool) bool {
	if slices.Contains(m.To, who) {
		return true
	}
	if who == m.Sender || slices.Contains(m.Exclude, who) {
		return false
	}
	return slices.ContainsFunc(m.To, func(to string) bool { return to == All || IsGroup(to) && in(to) })
}

// onlyDirect reports whether all recipients are named.
func (m *Message) onlyDirect() bool {
	return !slices.ContainsFunc(m.To, func(to string) bool { return to == All || IsGroup(to) })
}

func distinct(list []string) []string {
	var once []string
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}
