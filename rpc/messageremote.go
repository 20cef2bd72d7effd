package rpc

import (
	"context"

	"github.com/orch-dev/orch/messages"
)

// messageRequest is the request for one method of a messages.Broker: the caller and the argument.
type messageRequest[Who, In any] struct {
	Who Who `json:"who"`
	In  In  `json:"in"`
}

// ActorFields implements ActorRequest. It returns the actor fields of r.Who, or none.
func (r *messageRequest[Who, In]) ActorFields() []*string {
	if who, ok := any(&r.Who).(ActorRequest); ok {
		return who.ActorFields()
	}
	return nil
}

// MessageMethods returns the methods of a broker, for Serve.
func MessageMethods[Who any](b messages.Broker[Who]) map[string]Method {
	return map[string]Method{
		"send": messageMethod(b.Send), "inbox": messageMethod(b.Inbox), "ack": messageMethod(b.Ack), "group": messageMethod(b.Group),
	}
}

func messageMethod[Who, In, Out any](do func(context.Context, Who, In) (Out, error)) Method {
	return Handle(func(ctx context.Context, r messageRequest[Who, In]) (Out, error) { return do(ctx, r.Who, r.In) })
}

// Asker calls a method of a node, like Remote.Ask.
type Asker interface {
	Ask(ctx context.Context, method string, in, out any) error
}

var _ Asker = (*Remote)(nil)

// NewMessageClient returns a broker that calls the methods of a node that MessageMethods serves at prefix.
func NewMessageClient[Who any](node Asker, prefix string) messages.Broker[Who] {
	return messageClient[Who]{node, prefix}
}

type messageClient[Who any] struct {
	node   Asker
	prefix string
}

// Send implements messages.Broker.
func (c messageClient[Who]) Send(ctx context.Context, who Who, in messages.Draft) (messages.Receipt, error) {
	return ask[messages.Receipt](ctx, c, "send", who, in)
}

// Inbox implements messages.Broker.
func (c messageClient[Who]) Inbox(ctx context.Context, who Who, in messages.Query) (messages.Page, error) {
	ctx, stop := context.WithTimeout(ctx, max(in.Wait, 0)+CallWithin)
	defer stop()
	return ask[messages.Page](ctx, c, "inbox", who, in)
}

// Ack implements messages.Broker.
func (c messageClient[Who]) Ack(ctx context.Context, who Who, ids []string) (messages.Acked, error) {
	return ask[messages.Acked](ctx, c, "ack", who, ids)
}

// Group implements messages.Broker.
func (c messageClient[Who]) Group(ctx context.Context, who Who, in messages.GroupChange) (messages.Groups, error) {
	return ask[messages.Groups](ctx, c, "group", who, in)
}

func ask[Out, Who, In any](ctx context.Context, c messageClient[Who], method string, who Who, in In) (out Out, err error) {
	err = c.node.Ask(ctx, c.prefix+"."+method, messageRequest[Who, In]{who, in}, &out)
	return out, err
}
