package bus

import (
	"context"

	"github.com/orch-dev/orch/messages"
)

const (
	// MessagesPrefix is the prefix of the requests of faces about messages. Only the credential of the operator may send
	// them: they say for whom they are.
	MessagesPrefix = "orch.messages"
	// WorkMessagesPrefix is that of running calls, whose requests say which call it is: the node knows whom it acts for.
	WorkMessagesPrefix = WorkPrefix + ".messages"
)

// letterOf is a request about messages.
type letterOf[Who, In any] struct {
	Who Who `json:"who"`
	In  In  `json:"in"`
}

// OfficeMethods are the methods by which an office is asked.
func OfficeMethods[Who any](o messages.Office[Who]) map[string]Method {
	return map[string]Method{
		"send": asked(o.Send), "inbox": asked(o.Inbox), "ack": asked(o.Ack), "group": asked(o.Group),
	}
}

func asked[Who, In, Out any](do func(context.Context, Who, In) (Out, error)) Method {
	return Handle(func(ctx context.Context, l letterOf[Who, In]) (Out, error) { return do(ctx, l.Who, l.In) })
}

// Asker sends a request to a method of a node; see Remote.Ask.
type Asker interface {
	Ask(ctx context.Context, method string, in, out any) error
}

var _ Asker = (*Remote)(nil)

// NewOffice returns the office that a node serves below a prefix.
func NewOffice[Who any](node Asker, prefix string) messages.Office[Who] {
	return office[Who]{node, prefix}
}

type office[Who any] struct {
	node   Asker
	prefix string
}

// Send implements messages.Office.
func (o office[Who]) Send(ctx context.Context, who Who, in messages.Draft) (messages.Receipt, error) {
	return ask[messages.Receipt](ctx, o, "send", who, in)
}

// Inbox implements messages.Office.
func (o office[Who]) Inbox(ctx context.Context, who Who, in messages.Query) (messages.Page, error) {
	ctx, stop := context.WithTimeout(ctx, max(in.Wait, 0)+CallWithin)
	defer stop()
	return ask[messages.Page](ctx, o, "inbox", who, in)
}

// Ack implements messages.Office.
func (o office[Who]) Ack(ctx context.Context, who Who, ids []string) (messages.Acked, error) {
	return ask[messages.Acked](ctx, o, "ack", who, ids)
}

// Group implements messages.Office.
func (o office[Who]) Group(ctx context.Context, who Who, in messages.GroupChange) (messages.Groups, error) {
	return ask[messages.Groups](ctx, o, "group", who, in)
}

func ask[Out, Who, In any](ctx context.Context, o office[Who], method string, who Who, in In) (out Out, err error) {
	err = o.node.Ask(ctx, o.prefix+"."+method, letterOf[Who, In]{who, in}, &out)
	return out, err
}
