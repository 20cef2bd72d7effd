package node

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/work"
)

// mailroom stores and delivers the messages between agents and people.
type mailroom struct {
	*host

	credentials *credentials
	messages    *bus.Messages
	// messageMethods serves requests about messages.
	messageMethods map[string]rpc.Method
}

// openMessages reads the messages of the store. It precedes the creation of the tools that send messages.
func (ml *mailroom) openMessages(ctx context.Context) error {
	var err error
	ml.messages, err = ml.store.OpenMessages(ctx, messages.Config{
		FindSecret: findSecret, Members: ml.identities, Logger: ml.cfg.logger(),
	})
	if err != nil {
		return err
	}
	ml.onStop(func(context.Context) error { ml.messages.Close(); return nil })
	ml.cfg.broker = messages.BrokerForCalls(ml.messages, ml.callerOf)
	return nil
}

// callerOf returns the identity that a running call acts for. It reads the identity from the log, not from the call's arguments.
func (ml *mailroom) callerOf(ctx context.Context, c messages.Call) (string, error) {
	return ml.orch.CallerOf(ctx, work.Ref{Task: events.TaskID(c.Task), Step: c.Step, Attempt: c.Attempt})
}

// identities returns all identities that have tokens.
func (ml *mailroom) identities(ctx context.Context) []string {
	tokens := ml.credentials.loaded.Load()
	if tokens == nil {
		return nil
	}
	list, err := tokens.ListTokens(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = identityOf(t).Name
	}
	return names
}

func findSecret(data []byte) (string, bool) {
	found := policy.FindSecrets(data)
	if len(found) == 0 {
		return "", false
	}
	return found[0].Rule, true
}

// serveMessages serves requests about messages to remote workers and to MCP servers in other processes.
func (ml *mailroom) serveMessages(context.Context) error {
	delegated := &delegatedBroker{broker: ml.messages, record: ml.recordReading}
	ml.messageMethods = rpc.MessageMethods[messages.Delegation](delegated)
	faces, err := rpc.Serve(ml.requests, bus.MessagesPrefix, ml.messageMethods, ml.forOperator())
	if err != nil {
		return err
	}
	ml.onStop(closeSoon(faces))
	workers, err := rpc.Serve(ml.requests, bus.WorkMessagesPrefix, rpc.MessageMethods(ml.cfg.broker), rpc.EndpointConfig{Logger: ml.cfg.logger()})
	if err != nil {
		return err
	}
	ml.onStop(closeSoon(workers))
	return nil
}

// endWaits registers a cleanup that ends calls that wait for a message, so that they do not delay the stop of the node.
func (ml *mailroom) endWaits(context.Context) error {
	ml.onStop(func(context.Context) error { ml.messages.StopWaits(); return nil })
	return nil
}

// recordEvery is the interval in which repeated readings of the same inbox by the same operator are recorded only once.
const recordEvery = time.Minute

// delegatedBroker is a messages.Broker for identities that may act for somebody else (messages.Delegation). It lets an operator
// read the inbox of another identity, and records that in the log. It refuses everything else on behalf of another identity.
type delegatedBroker struct {
	broker messages.Broker[string]
	// record records in the log that who.By reads the inbox of who.For.
	record func(ctx context.Context, who messages.Delegation) error

	mu      sync.Mutex // not held during calls of record
	records map[messages.Delegation]*pendingRecord
}

// pendingRecord is a reading that was recorded recently, or is being recorded.
type pendingRecord struct {
	at time.Time
	// done is closed when it is recorded, or has failed with err.
	done chan struct{}
	err  error
	// abandoned is set if it has failed after the context of its caller ended, which may be the cause of the failure.
	abandoned bool
}

var _ messages.Broker[messages.Delegation] = (*delegatedBroker)(nil)

// Inbox implements messages.Broker.
func (d *delegatedBroker) Inbox(ctx context.Context, who messages.Delegation, q messages.Query) (messages.Page, error) {
	if who.For != who.By {
		if err := d.recordOnce(ctx, who); err != nil {
			return messages.Page{}, err
		}
	}
	return d.broker.Inbox(ctx, who.For, q)
}

// recordOnce records a reading, unless it was recorded within recordEvery. If it cannot be recorded, recordOnce returns the
// error, and the reading must be refused.
func (d *delegatedBroker) recordOnce(ctx context.Context, who messages.Delegation) error {
	for _, name := range []string{who.For, who.By} {
		if err := messages.CheckIdentity(name); err != nil {
			return err
		}
	}
	for {
		n, mine := d.claimRecord(who)
		if mine {
			n.err = d.record(ctx, who)
			n.abandoned = n.err != nil && ctx.Err() != nil
			d.finishRecord(who, n)
			return n.err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-n.done:
		}
		if !n.abandoned { // if it was, this call tries to record the reading
			return n.err
		}
	}
}

// claimRecord returns the record of a reading. mine is true if the record is new: the caller must then record the reading.
func (d *delegatedBroker) claimRecord(who messages.Delegation) (n *pendingRecord, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for key, n := range d.records {
		if now.Sub(n.at) >= recordEvery {
			delete(d.records, key)
		}
	}
	if n := d.records[who]; n != nil {
		return n, false
	}
	if d.records == nil {
		d.records = map[messages.Delegation]*pendingRecord{}
	}
	n = &pendingRecord{at: now, done: make(chan struct{})}
	d.records[who] = n
	return n, true
}

// finishRecord wakes the calls that wait for a reading to be recorded. After a failure, the next reading is recorded again.
func (d *delegatedBroker) finishRecord(who messages.Delegation, n *pendingRecord) {
	d.mu.Lock()
	if n.err != nil && d.records[who] == n {
		delete(d.records, who)
	}
	d.mu.Unlock()
	close(n.done)
}

// requireOwn returns FORBIDDEN if an identity acts for somebody else.
func requireOwn(who messages.Delegation) error {
	if who.For != who.By {
		return fault.New(fault.Forbidden, "%s cannot act for %s", who.By, who.For).WithHint("an operator reads the inboxes of others, and changes nothing in them")
	}
	return nil
}

// Send implements messages.Broker.
func (d *delegatedBroker) Send(ctx context.Context, who messages.Delegation, draft messages.Draft) (messages.Receipt, error) {
	if err := requireOwn(who); err != nil {
		return messages.Receipt{}, err
	}
	return d.broker.Send(ctx, who.By, draft)
}

// Ack implements messages.Broker.
func (d *delegatedBroker) Ack(ctx context.Context, who messages.Delegation, ids []string) (messages.Acked, error) {
	if err := requireOwn(who); err != nil {
		return messages.Acked{}, err
	}
	return d.broker.Ack(ctx, who.By, ids)
}

// Group implements messages.Broker.
func (d *delegatedBroker) Group(ctx context.Context, who messages.Delegation, change messages.GroupChange) (messages.Groups, error) {
	if err := requireOwn(who); err != nil {
		return messages.Groups{}, err
	}
	return d.broker.Group(ctx, who.By, change)
}

// recordReading records in the log that an operator reads the inbox of another identity.
func (ml *mailroom) recordReading(ctx context.Context, who messages.Delegation) error {
	type object = map[string]any
	text := who.By + " reads the inbox of " + who.For
	plan, err := json.Marshal(object{"orch": "v1", "name": api.OwnPrefix + "messages", "summary": text, "steps": []object{{
		"id": "reading", "tool": "LOG_WRITE", "with": object{
			"level": "WARN", "message": text, "context": object{"event": "inbox_read", "inbox": who.For, "by": who.By},
		},
	}}})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the reading cannot be noted")
	}
	_, err = ml.orch.Submit(ctx, api.SubmitRequest{Plan: plan, Actor: who.By, Internal: true})
	return err
}

// Inboxes implements server.Inboxes for an MCP server in a process without a node. Each identity can read only its own inbox.
type Inboxes struct{ Node Asker }

// Inbox implements server.Inboxes.
func (i Inboxes) Inbox(ctx context.Context, who string, q messages.Query) (messages.Page, error) {
	return rpc.NewMessageClient[messages.Delegation](i.Node, bus.MessagesPrefix).Inbox(ctx, messages.Delegation{For: who, By: who}, q)
}

// askMessages serves a request about messages, without a network in between. It returns false for any other request.
func (ml *mailroom) askMessages(ctx context.Context, method string, in, out any) (bool, error) {
	name, ours := strings.CutPrefix(method, bus.MessagesPrefix+".")
	if !ours {
		return false, nil
	}
	return true, localMethods(ml.messageMethods).Ask(ctx, name, in, out)
}
