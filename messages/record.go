package messages

import "time"

// Kind says what a record is about.
type Kind string

// The kinds of records.
const (
	// Sent is a message.
	Sent Kind = "sent"
	// Done takes the place of a message that nobody needs any more; its payload is gone.
	Done Kind = "done"
	// Taken says that one of several recipients needs a message no more.
	Taken Kind = "taken"
	// Joined and Left are about groups.
	Joined Kind = "joined"
	Left   Kind = "left"
)

// Record is what a Store keeps. Of the records about one thing the newest counts: there is one about each message
// (Sent, Done), one about each message and recipient (Taken), and one about each group and member (Joined, Left).
type Record struct {
	Kind Kind `json:"kind"`
	// Message is that of Sent, and without its payload that of Done.
	Message *Message `json:"message,omitempty"`
	// ID is the message of Taken, Group the group of Joined and Left, Who the recipient or member.
	ID    string `json:"id,omitempty"`
	Group string `json:"group,omitempty"`
	Who   string `json:"who,omitempty"`
	// TTL is when the record may be dropped, from now on; 0 is never.
	TTL time.Duration `json:"-"`
}
