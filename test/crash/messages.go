package crash

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The kinds of a MessageEvent.
const (
	// Tried: a sender has started to send a message. Sent: the node has acknowledged the message.
	Tried = "tried"
	Sent  = "sent"
	// Seen: a reader has received a message. Acked: the node has confirmed the reader's acknowledgement.
	Seen  = "seen"
	Acked = "acked"
)

// MessageEvent is an event that a sender or reader of messages observed. A letter is a message as its sender sees it:
// the same letter may be sent several times.
type MessageEvent struct {
	What string `json:"what"`
	// Who is the sender or reader, such as "user:s0".
	Who string `json:"who"`
	// Letter is the text of the message. It is unique in a test, and the same in every attempt to send the message.
	Letter string `json:"letter,omitempty"`
	// ID is the message id.
	ID string `json:"id,omitempty"`
	// For are the recipients of a letter. Others are the identities that must not receive it.
	For    []string `json:"for,omitempty"`
	Others []string `json:"others,omitempty"`
	// No is the number of the letter if its sender sends one letter after another; 0 for a concurrent sender.
	No int `json:"no,omitempty"`
	// Sender is the sender that the message names. Position is the position of the message in the order of all
	// messages.
	Sender   string `json:"sender,omitempty"`
	Position uint64 `json:"position,omitempty"`
	// Cursor is the position after which the reader reads. Follows is true if the reader uses a cursor.
	Cursor  uint64    `json:"cursor,omitempty"`
	Follows bool      `json:"follows,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Round   int       `json:"round,omitempty"`
	// Asked is the time of the request, At the time of its response.
	Asked time.Time `json:"asked,omitzero"`
	At    time.Time `json:"at,omitzero"`
}

// MessageLog is an append-only file of message events that many processes write at the same time.
type MessageLog struct{ file *os.File }

// OpenMessageLog opens the file at a path, and creates it if it does not exist.
func OpenMessageLog(path string) (*MessageLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.From(err)
	}
	return &MessageLog{file: f}, nil
}

// Append writes events in a single write, one per line.
func (p *MessageLog) Append(list ...MessageEvent) error {
	var lines bytes.Buffer
	for _, e := range list {
		if err := json.NewEncoder(&lines).Encode(e); err != nil {
			return fault.From(err)
		}
	}
	if _, err := p.file.Write(lines.Bytes()); err != nil {
		return fault.From(err)
	}
	return nil
}

// Close closes the file.
func (p *MessageLog) Close() error { return p.file.Close() }

// ReadMessageLog returns the events of a file in the order in which they were written, or DATA_LOSS for an invalid
// line.
func ReadMessageLog(path string) ([]MessageEvent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.From(err)
	}
	defer f.Close()
	var list []MessageEvent
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e MessageEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return list, fault.New(fault.DataLoss, "the post has a line that is no event: %q", lines.Text())
		}
		list = append(list, e)
	}
	return list, lines.Err()
}

// messageChecker compares the observations of senders and readers.
type messageChecker struct {
	found []Violation
	// tried and sent are keyed by letter, seen by reader.
	tried map[string]MessageEvent
	sent  map[string][]MessageEvent
	seen  map[string][]MessageEvent
	// acked contains the time at which an acknowledgement was first confirmed, by reader and message id.
	acked map[[2]string]time.Time
}

// expiryGrace is how long a message may still be delivered after it has expired.
const expiryGrace = 2 * time.Second

// CheckMessages checks the observations of senders and readers against each other (I15). The events of a reader must be
// in the order of delivery, and all readers must have read to the end.
func CheckMessages(list []MessageEvent) []Violation {
	c := &messageChecker{tried: map[string]MessageEvent{}, sent: map[string][]MessageEvent{}, seen: map[string][]MessageEvent{}, acked: map[[2]string]time.Time{}}
	for _, e := range list {
		switch e.What {
		case Tried:
			c.tried[e.Letter] = e
		case Sent:
			c.sent[e.Letter] = append(c.sent[e.Letter], e)
		case Seen:
			c.seen[e.Who] = append(c.seen[e.Who], e)
		case Acked:
			key := [2]string{e.Who, e.ID}
			if at, known := c.acked[key]; !known || e.At.Before(at) {
				c.acked[key] = e.At
			}
		}
	}
	c.checkSent()
	for who, seen := range c.seen {
		c.checkReader(who, seen)
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Or(a.Round-b.Round, strings.Compare(a.What, b.What)) })
	return c.found
}

func (c *messageChecker) violate(round int, format string, args ...any) {
	c.found = append(c.found, Violation{Invariant: "I15", Round: round, What: fmt.Sprintf(format, args...)})
}

// checkSent checks that an acknowledged letter became exactly one message. It also checks that all recipients received
// the message, unless it may have expired first.
func (c *messageChecker) checkSent() {
	for letter, answers := range c.sent {
		for _, a := range answers[1:] {
			if a.ID != answers[0].ID {
				c.violate(a.Round, "the letter %s of %s was acknowledged as %s and as %s", letter, a.Who, answers[0].ID, a.ID)
			}
		}
		for _, reader := range answers[0].For {
			if !c.reached(reader, answers[0]) {
				c.violate(answers[0].Round, "the letter %s of %s was acknowledged as %s, and never came to %s", letter, answers[0].Who, answers[0].ID, reader)
			}
		}
	}
}

// shortLife is a lifetime in which a reader may miss a message, because a node may be down that long. Every message
// with a longer lifetime must reach its readers.
const shortLife = 10 * time.Second

// reached reports whether a reader received a message, or may have missed it because of its short lifetime.
func (c *messageChecker) reached(reader string, m MessageEvent) bool {
	return slices.ContainsFunc(c.seen[reader], func(s MessageEvent) bool { return s.ID == m.ID }) ||
		!m.Expires.IsZero() && m.Expires.Sub(m.At) < shortLife
}

// checkReader checks the messages that one reader received.
func (c *messageChecker) checkReader(who string, seen []MessageEvent) {
	letters := map[string]string{} // letter → id of its message
	once := map[string]bool{}
	last := uint64(0)
	for _, s := range seen {
		t, tried := c.tried[s.Letter]
		switch {
		case !tried:
			c.violate(s.Round, "%s was given the letter %q, which nobody has sent", who, s.Letter)
		case t.Who != s.Sender:
			c.violate(s.Round, "%s was given the letter %s of %s as one of %s", who, s.Letter, t.Who, s.Sender)
		case !slices.Contains(t.For, who):
			c.violate(s.Round, "%s was given the letter %s of %s, which is for %v", who, s.Letter, t.Who, t.For)
		}
		if first, known := letters[s.Letter]; known && first != s.ID {
			c.violate(s.Round, "%s was given the letter %s of %s twice, as %s and as %s", who, s.Letter, s.Sender, first, s.ID)
		}
		letters[s.Letter] = s.ID
		if at, done := c.acked[[2]string{who, s.ID}]; done && s.Asked.After(at) {
			c.violate(s.Round, "%s was given %s again, %s after it had acknowledged it", who, s.ID, s.Asked.Sub(at))
		}
		if !s.Expires.IsZero() && s.Asked.After(s.Expires.Add(expiryGrace)) {
			c.violate(s.Round, "%s was given %s, which had expired %s before", who, s.ID, s.Asked.Sub(s.Expires))
		}
		if s.Follows {
			if once[s.ID] {
				c.violate(s.Round, "%s was given %s twice, although it reads by a cursor", who, s.ID)
			}
			if s.Position <= last {
				c.violate(s.Round, "%s was given position %d behind the cursor %d", who, s.Position, last)
			}
			once[s.ID], last = true, s.Position
		}
	}
	c.checkOrder(who, seen)
}

// checkOrder checks that the letters of each sequential sender were received in the order in which they were sent.
func (c *messageChecker) checkOrder(who string, seen []MessageEvent) {
	type place struct {
		no       int
		position uint64
	}
	bySender := map[string][]place{}
	for _, s := range seen {
		if t := c.tried[s.Letter]; t.No > 0 {
			bySender[s.Sender] = append(bySender[s.Sender], place{t.No, s.Position})
		}
	}
	for sender, places := range bySender {
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.position, b.position) })
		for i := 1; i < len(places); i++ {
			if places[i].no < places[i-1].no {
				c.violate(0, "%s has letter %d of %s at position %d, behind letter %d at %d",
					who, places[i].no, sender, places[i].position, places[i-1].no, places[i-1].position)
			}
		}
	}
}
