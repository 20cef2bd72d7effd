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

// mailroom provides the messages of agents and people.
type mailroom struct {
	*host

	credentials *credentials
	messages    *bus.Messages
	// messageMethods serves requests about messages.
	messageMethods map[string]rpc.Method
}

// openMessages reads the messages of the store, before the tools that send them are created.
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

// callerOf returns who a running call acts for. It does not rely on what the tool itself says.
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

// serveMessages serves requests of faces and remote workers about messages.
func (ml *mailroom) serveMessages(context.Context) error {
	delegated := &delegatedBroker{broker: ml.messages, note: ml.recordReading}
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

// endWaits ends calls that wait for a message, so that they do not delay the end of the node. It is the first step of a stop.
func (ml *mailroom) endWaits(context.Context) error {
	ml.onStop(func(context.Context) error { ml.messages.StopWaits(); return nil })
	return nil
}

// recordEvery is the interval within which readings of the same foreign inbox are recorded only once.
const recordEvery = time.Minute

// delegatedBroker lets the operator read the inboxes of others, which is recorded in the log. The operator can do nothing else
// for them.
type delegatedBroker struct {
	broker messages.Broker[string]
	note   func(ctx context.Context, who messages.Delegation) error

	mu    sync.Mutex // not held while anything is recorded
	noted map[messages.Delegation]*pendingRecord
}

// pendingRecord is a reading that was recorded recently, or is being recorded.
type pendingRecord struct {
	at time.Time
	// done is closed when it is recorded, or has failed with err.
	done chan struct{}
	err  error
	// gone is true if it has failed and its caller waits no more, which may be the reason.
	gone bool
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

// recordOnce records a reading, unless that was done recently. A reading that cannot be recorded is refused.
func (d *delegatedBroker) recordOnce(ctx context.Context, who messages.Delegation) error {
	for _, name := range []string{who.For, who.By} {
		if err := messages.CheckIdentity(name); err != nil {
			return err
		}
	}
	for {
		n, mine := d.claimRecord(who)
		if mine {
			n.err = d.note(ctx, who)
			n.gone = n.err != nil && ctx.Err() != nil
			d.finishRecord(who, n)
			return n.err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-n.done:
		}
		if !n.gone { // else this call records it
			return n.err
		}
	}
}

// claimRecord returns the note of a reading, and whether the caller has to record it.
func (d *delegatedBroker) claimRecord(who messages.Delegation) (n *pendingRecord, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for known, n := range d.noted {
		if now.Sub(n.at) >= recordEvery {
			delete(d.noted, known)
		}
	}
	if n := d.noted[who]; n != nil {
		return n, false
	}
	if d.noted == nil {
		d.noted = map[messages.Delegation]*pendingRecord{}
	}
	n = &pendingRecord{at: now, done: make(chan struct{})}
	d.noted[who] = n
	return n, true
}

// finishRecord wakes those who wait for a reading to be recorded. After a failure, the next reading tries again.
func (d *delegatedBroker) finishRecord(who messages.Delegation, n *pendingRecord) {
	d.mu.Lock()
	if n.err != nil && d.noted[who] == n {
		delete(d.noted, who)
	}
	d.mu.Unlock()
	close(n.done)
}

// requireOwn returns FORBIDDEN for an identity that would act for somebody else.
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

// recordReading records in the log that somebody reads the inbox of somebody else.
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
	_, err = ml.orch.Submit(ctx, api.SubmitRequest{Plan: plan, Actor: who.By})
	return err
}

// Inboxes gives a face in another process access to inboxes of a node, each only for its owner.
type Inboxes struct{ Node Asker }

// Inbox implements server.Inboxes.
func (i Inboxes) Inbox(ctx context.Context, who string, q messages.Query) (messages.Page, error) {
	return rpc.NewMessageClient[messages.Delegation](i.Node, bus.MessagesPrefix).Inbox(ctx, messages.Delegation{For: who, By: who}, q)
}

// askMessages serves a request about messages in this process; false for other requests.
func (ml *mailroom) askMessages(ctx context.Context, method string, in, out any) (bool, error) {
	name, ours := strings.CutPrefix(method, bus.MessagesPrefix+".")
	if !ours {
		return false, nil
	}
	return true, localMethods(ml.messageMethods).Ask(ctx, name, in, out)
}
