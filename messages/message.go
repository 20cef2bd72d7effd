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

// Types returns the predefined types of messages. Other types are allowed if they have the same form.
func Types() []string {
	return []string{"task", "status", "learning", "patch", "consensus", "system", "error", "discovery"}
}

// DefaultType is the type of a message without one.
const DefaultType = "status"

var typeForm = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// Message is the envelope of a message. It needs no signature, because the log records the identity that made the call.
type Message struct {
	// ID is "MSG_" and 26 characters. It may be derived from the key of the message, so it does not sort by time;
	// Position does.
	ID string    `json:"message_id"`
	At time.Time `json:"at"`
	// Sender is the identity of the sender's credential.
	Sender string `json:"sender"`
	Type   string `json:"type"`
	// Priority is 0 to 4; 4 is the most urgent.
	Priority  int       `json:"priority"`
	ExpiresAt time.Time `json:"expires_at"`
	// Correlation is the same for all messages of a conversation. The sender chooses it; the default is the id of the
	// first message.
	Correlation string `json:"correlation_id,omitempty"`
	// ReplyTo is the id of the message to which this one replies.
	ReplyTo string `json:"reply_to,omitempty"`
	// To are the addresses. Exclude are identities that do not receive the message through a group or all.
	To      []string `json:"to"`
	Exclude []string `json:"exclude,omitempty"`
	// Payload is any JSON value.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Position is the position in the order of all messages, and the cursor of readers.
	Position uint64 `json:"position,omitempty"`
	// Digest detects whether a repeated message with the same id has the same content.
	Digest string `json:"digest,omitempty"`
}

// UnmarshalJSON also accepts the field id, which earlier versions wrote instead of message_id.
func (m *Message) UnmarshalJSON(data []byte) error {
	type plain Message
	read := struct {
		*plain

		Former string `json:"id"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err //nolint:wrapcheck // the error of encoding/json, as for every other type
	}
	m.ID = cmp.Or(m.ID, read.Former)
	return nil
}

// Draft is a message as its sender specifies it.
type Draft struct {
	// Key is an idempotency key: repeated requests of a sender with the same key send one message. If empty, every
	// request sends a message.
	Key  string   `json:"key,omitempty"`
	To   []string `json:"to,omitempty"`
	Type string   `json:"type,omitempty"`
	// Priority is 0 to 4; nil means 2.
	Priority *int `json:"priority,omitempty"`
	// TTL is the lifetime; 0 means a day.
	TTL         time.Duration   `json:"ttl,omitempty"`
	Correlation string          `json:"correlation_id,omitempty"`
	ReplyTo     string          `json:"reply_to,omitempty"`
	Exclude     []string        `json:"exclude,omitempty"`
	Payload     json.RawMessage `json:"payload,omitempty"`
}

// Message returns the message of a draft. Errors name the field: REQUIRED_FIELD, INVALID_FORMAT, and VALIDATION_ERROR,
// which has the reason SIZE_LIMIT_EXCEEDED for more than 256 KiB.
func (d Draft) Message(sender string, now time.Time) (Message, error) {
	if err := d.check(); err != nil {
		return Message{}, err
	}
	var payload bytes.Buffer
	if err := json.Compact(&payload, d.Payload); err != nil {
		return Message{}, fault.Wrap(fault.InvalidFormat, err, "is not valid JSON").WithField("payload")
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
		return fault.New(fault.ValidationError, "%d is not a priority", *d.Priority).WithField("priority").
			WithHint("use 0 to %d; %d is the most urgent", MaxPriority, MaxPriority)
	}
	if d.TTL != 0 && (d.TTL < MinTTL || d.TTL > MaxTTL) {
		return fault.New(fault.ValidationError, "%s is not a valid lifetime of a message", d.TTL).WithField("ttl").
			WithHint("use %s to %s", MinTTL, MaxTTL)
	}
	if err := checkCorrelation(d.Correlation); err != nil {
		return err
	}
	if d.ReplyTo != "" && !events.IsMessageID(d.ReplyTo) {
		return fault.New(fault.InvalidFormat, "%q is not a message", clip(d.ReplyTo)).WithField("reply_to").WithHint("a message is MSG_ and 26 characters")
	}
	return d.checkAddresses()
}

// checkType returns INVALID_FORMAT for an invalid type; an empty type means the default.
func checkType(text string) error {
	if text == "" || len(text) <= maxType && typeForm.MatchString(text) {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is not a type of a message", clip(text)).WithField("type").
		WithHint("use one of %s, or another word of a to z, 0 to 9, '.', '_' and '-'", strings.Join(Types(), ", "))
}

// checkCorrelation returns VALIDATION_ERROR for a correlation id that is too long. Any other string is valid.
func checkCorrelation(text string) error {
	if len(text) <= maxCorrelation {
		return nil
	}
	return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(text), maxCorrelation).WithField("correlation_id")
}

// CheckIDs returns INVALID_FORMAT when one of texts is not a message id.
func CheckIDs(texts []string) error {
	for _, text := range texts {
		if !events.IsMessageID(text) {
			return fault.New(fault.InvalidFormat, "%q is not a message", clip(text)).WithField("message_ids").WithHint("a message is MSG_ and 26 characters")
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

// digest returns a digest of all fields of the draft. The order of recipients matters.
func (d Draft) digest() string {
	text, _ := json.Marshal(d) // the payload has been validated
	sum := sha256.Sum256(text)
	const digestBytes = 16
	return hex.EncodeToString(sum[:digestBytes])
}

// Size returns the length of the message encoded as JSON, in bytes.
func (m *Message) Size() int {
	text, _ := json.Marshal(m) // it contains only strings, numbers and JSON
	return len(text)
}

// Alive reports whether the message has not expired at now.
func (m *Message) Alive(now time.Time) bool { return now.Before(m.ExpiresAt) }

// IsFor reports whether the message is addressed to who; in reports whether who is in a group. A message to a group or
// to all is not for its sender.
func (m *Message) IsFor(who string, in func(group string) bool) bool {
	if slices.Contains(m.To, who) {
		return true
	}
	if who == m.Sender || slices.Contains(m.Exclude, who) {
		return false
	}
	return slices.ContainsFunc(m.To, func(to string) bool { return to == All || IsGroup(to) && in(to) })
}

// onlyDirect reports whether the message has only agents and users as recipients.
func (m *Message) onlyDirect() bool {
	return !slices.ContainsFunc(m.To, func(to string) bool { return to == All || IsGroup(to) })
}

func distinct(list []string) []string {
	var unique []string
	for _, s := range list {
		if !slices.Contains(unique, s) {
			unique = append(unique, s)
		}
	}
	return unique
}
