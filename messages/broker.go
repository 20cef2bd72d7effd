package messages

import (
	"context"
	"time"
)

// Broker takes and gives out messages for somebody: Who is an identity such as agent:builder, a running call that acts
// for one, or somebody who reads for another one.
type Broker[Who any] interface {
	// Send stores a message and returns when it survives a restart. A draft with a key that was sent before is the same
	// message; CONFLICT when it says something else. Errors beside those of Draft.Message: NOT_FOUND for an unknown message
	// that is answered, QUOTA_EXCEEDED when a recipient or the store has no room, SECRET_DETECTED, DISK_FULL, UNAVAILABLE.
	Send(ctx context.Context, who Who, d Draft) (Receipt, error)
	// Inbox returns what waits, maybe after a wait. A message is returned until it is acknowledged or expires.
	Inbox(ctx context.Context, who Who, q Query) (Page, error)
	// Ack says that messages are dealt with. It may be repeated.
	Ack(ctx context.Context, who Who, ids []string) (Acked, error)
	// Group joins a group, leaves it, or changes nothing, and returns the groups that one is in then.
	Group(ctx context.Context, who Who, change GroupChange) (Groups, error)
}

// Call is a running call of a tool, which acts for whoever made it.
type Call struct {
	Task    string `json:"task"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// Delegation is By, who asks, for For: themselves, or somebody whose inbox they look into.
type Delegation struct {
	For string `json:"for"`
	By  string `json:"by"`
}

// ActorFields returns the field that names who acts.
func (d *Delegation) ActorFields() []*string { return []*string{&d.By} }

// Receipt says what became of a message.
type Receipt struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Correlation is that of the conversation, for answers.
	Correlation string   `json:"correlation_id,omitempty"`
	To          []string `json:"to"`
	// Existing is true for a message that had been sent before.
	Existing bool `json:"existing,omitempty"`
	// Unknown are recipients that nobody has been so far: the message waits for them as long as it lives. A group without
	// members is one, and nobody gets what is sent to it.
	Unknown []string `json:"unknown,omitempty"`
	// Displaced are less urgent messages that had to make room in full inboxes. Their senders are told.
	Displaced []string `json:"displaced,omitempty"`
}

// Query selects messages of an inbox. The zero value takes the most urgent ones, the oldest of them first.
type Query struct {
	// After is a cursor: only what came later, in the order of arrival. InOrder wants that order from the beginning.
	After   uint64 `json:"after,omitempty"`
	InOrder bool   `json:"in_order,omitempty"`
	// Type, Sender and Correlation select by these fields; empty selects all. MinPriority is the least one.
	Type        string `json:"type,omitempty"`
	Sender      string `json:"sender,omitempty"`
	Correlation string `json:"correlation_id,omitempty"`
	MinPriority int    `json:"min_priority,omitempty"`
	// Limit is how many are returned, at most 100; 0 is 20.
	Limit int `json:"limit,omitempty"`
	// Wait is how long to wait for a message when there is none, at most a minute.
	Wait time.Duration `json:"wait,omitempty"`
	// Heads leaves the payloads out.
	Heads bool `json:"heads,omitempty"`
}

// Page is what a reading of an inbox returns.
type Page struct {
	Messages []Message `json:"messages"`
	// Waiting is how many messages fit the query, those that are not on the page included.
	Waiting int `json:"waiting"`
	// Next is the cursor to go on with; 0 when the page is in the order of urgency and not the whole of it.
	Next uint64 `json:"next,omitempty"`
	// More is true when some are not on the page.
	More bool `json:"more,omitempty"`
}

// Acked is what an acknowledgement did.
type Acked struct {
	Acknowledged []string `json:"acknowledged"`
	// Unknown are those that do not wait for one: acknowledged before, expired, or never sent to one.
	Unknown []string `json:"unknown,omitempty"`
}

// GroupChange joins or leaves a group. The zero value changes nothing.
type GroupChange struct {
	Join  string `json:"join,omitempty"`
	Leave string `json:"leave,omitempty"`
}

// Groups are those that somebody is in.
type Groups struct {
	Groups []string `json:"groups"`
}

// BrokerForCalls lets calls act for whoever made them, whom find tells.
func BrokerForCalls(broker Broker[string], find func(context.Context, Call) (string, error)) Broker[Call] {
	return callBroker{broker, find}
}

type callBroker struct {
	broker Broker[string]
	find   func(context.Context, Call) (string, error)
}

// Send implements Broker.
func (f callBroker) Send(ctx context.Context, c Call, d Draft) (Receipt, error) {
	who, err := f.find(ctx, c)
	if err != nil {
		return Receipt{}, err
	}
	return f.broker.Send(ctx, who, d)
}

// Inbox implements Broker.
func (f callBroker) Inbox(ctx context.Context, c Call, q Query) (Page, error) {
	who, err := f.find(ctx, c)
	if err != nil {
		return Page{}, err
	}
	return f.broker.Inbox(ctx, who, q)
}

// Ack implements Broker.
func (f callBroker) Ack(ctx context.Context, c Call, ids []string) (Acked, error) {
	who, err := f.find(ctx, c)
	if err != nil {
		return Acked{}, err
	}
	return f.broker.Ack(ctx, who, ids)
}

// Group implements Broker.
func (f callBroker) Group(ctx context.Context, c Call, change GroupChange) (Groups, error) {
	who, err := f.find(ctx, c)
	if err != nil {
		return Groups{}, err
	}
	return f.broker.Group(ctx, who, change)
}
