package messages

import (
	"context"
	"time"
)

// Broker sends and delivers messages. Who is the type that identifies the caller: a string for an identity such as
// agent:builder, Call for a running call, or Delegation.
type Broker[Who any] interface {
	// Send stores a message and returns when it is durable. A draft with a key that was sent before returns the same
	// message, or CONFLICT when the content differs. Errors in addition to those of Draft.Message: NOT_FOUND for a
	// reply to an unknown message, QUOTA_EXCEEDED when an inbox or the store is full, SECRET_DETECTED, DISK_FULL,
	// UNAVAILABLE.
	Send(ctx context.Context, who Who, d Draft) (Receipt, error)
	// Inbox returns the pending messages. If there are none, it waits up to q.Wait for a message. A message is returned
	// until it is acknowledged or expires.
	Inbox(ctx context.Context, who Who, q Query) (Page, error)
	// Ack acknowledges messages. It is idempotent.
	Ack(ctx context.Context, who Who, ids []string) (Acked, error)
	// Group joins or leaves a group, or changes nothing, and returns the resulting memberships.
	Group(ctx context.Context, who Who, change GroupChange) (Groups, error)
}

// Call identifies a running tool call. It acts for the identity that made it.
type Call struct {
	Task    string `json:"task"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// Delegation identifies a request of By on behalf of For. For is By itself, or an identity whose inbox By reads.
type Delegation struct {
	For string `json:"for"`
	By  string `json:"by"`
}

// ActorFields returns the fields that name the actor of the request.
func (d *Delegation) ActorFields() []*string { return []*string{&d.By} }

// Receipt is the result of sending a message.
type Receipt struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Correlation is the id of the conversation, for replies.
	Correlation string   `json:"correlation_id,omitempty"`
	To          []string `json:"to"`
	// Existing is true for a message that was sent before under the same key.
	Existing bool `json:"existing,omitempty"`
	// Unknown are the recipients that are not known identities. The message waits for them until it expires. A group
	// without members counts as unknown, and nobody receives a message to it.
	Unknown []string `json:"unknown,omitempty"`
	// Displaced are less urgent messages that were removed from full inboxes. Their senders are notified.
	Displaced []string `json:"displaced,omitempty"`
}

// Query selects messages of an inbox. The zero value selects the most urgent messages, and the oldest first among
// messages of the same priority.
type Query struct {
	// After is a cursor: it selects the messages after it, in the order of arrival. InOrder selects all messages in the
	// order of arrival.
	After   uint64 `json:"after,omitempty"`
	InOrder bool   `json:"in_order,omitempty"`
	// Type, Sender and Correlation select messages with these values; empty selects all. MinPriority is the lowest
	// priority to select.
	Type        string `json:"type,omitempty"`
	Sender      string `json:"sender,omitempty"`
	Correlation string `json:"correlation_id,omitempty"`
	MinPriority int    `json:"min_priority,omitempty"`
	// Limit is how many messages are returned, at most 100; 0 means 20.
	Limit int `json:"limit,omitempty"`
	// Wait is how long to wait for a message when there is none, at most a minute.
	Wait time.Duration `json:"wait,omitempty"`
	// Heads returns only the heads of the messages, without their payloads.
	Heads bool `json:"heads,omitempty"`
}

// Page is the result of reading an inbox.
type Page struct {
	Messages []Message `json:"messages"`
	// Waiting counts the messages that match the query, including those that are not on the page.
	Waiting int `json:"waiting"`
	// Next is the cursor of the next page. It is 0 when the page is in the order of urgency and incomplete.
	Next uint64 `json:"next,omitempty"`
	// More is true when the page is incomplete.
	More bool `json:"more,omitempty"`
}

// Acked is the result of an acknowledgement.
type Acked struct {
	Acknowledged []string `json:"acknowledged"`
	// Unknown are the messages that were not pending: acknowledged before, expired, or never addressed to the reader.
	Unknown []string `json:"unknown,omitempty"`
}

// GroupChange joins or leaves a group. The zero value changes nothing.
type GroupChange struct {
	Join  string `json:"join,omitempty"`
	Leave string `json:"leave,omitempty"`
}

// Groups are the memberships of an identity.
type Groups struct {
	Groups []string `json:"groups"`
}

// BrokerForCalls returns a broker for running calls. find returns the identity for which a call acts.
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
