package messages

import "time"

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	// Sent is the record of a message.
	Sent Kind = "sent"
	// Done replaces a message that is pending for nobody. It has no payload.
	Done Kind = "done"
	// RecipientDone records that one of several recipients has acknowledged a message.
	RecipientDone Kind = "taken"
	// Joined and Left are changes of a membership.
	Joined Kind = "joined"
	Left   Kind = "left"
)

// Record is an entry of a Store. Only the newest record with a key counts: there is one for each message (Sent, Done),
// one for each message and recipient (RecipientDone), and one for each group and member (Joined, Left).
type Record struct {
	Kind Kind `json:"kind"`
	// Message is set for Sent, and without its payload for Done.
	Message *Message `json:"message,omitempty"`
	// ID is the message of RecipientDone, Group the group of Joined and Left, Who the recipient or member.
	ID    string `json:"id,omitempty"`
	Group string `json:"group,omitempty"`
	Who   string `json:"who,omitempty"`
	// TTL is the time from now after which the record may be dropped; 0 means never.
	TTL time.Duration `json:"-"`
}
