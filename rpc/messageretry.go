package rpc

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

const (
	// retryFor is how long requests to an unavailable broker are repeated. Its node may be restarting.
	retryFor = time.Minute
	// retryEvery is the pause between attempts.
	retryEvery = 250 * time.Millisecond
)

// RetryingBroker returns a broker that repeats requests while b is unavailable. Repeating them is harmless, because drafts have
// idempotency keys.
func RetryingBroker[Who any](b messages.Broker[Who]) messages.Broker[Who] {
	return retryingBroker[Who]{b}
}

type retryingBroker[Who any] struct{ messages.Broker[Who] }

// Send implements messages.Broker.
func (r retryingBroker[Who]) Send(ctx context.Context, who Who, d messages.Draft) (messages.Receipt, error) {
	if d.Key == "" {
		return r.Broker.Send(ctx, who, d)
	}
	return retryUnavailable(ctx, func() (messages.Receipt, error) { return r.Broker.Send(ctx, who, d) })
}

// Inbox implements messages.Broker.
func (r retryingBroker[Who]) Inbox(ctx context.Context, who Who, q messages.Query) (messages.Page, error) {
	return retryUnavailable(ctx, func() (messages.Page, error) { return r.Broker.Inbox(ctx, who, q) })
}

// Ack implements messages.Broker.
func (r retryingBroker[Who]) Ack(ctx context.Context, who Who, ids []string) (messages.Acked, error) {
	return retryUnavailable(ctx, func() (messages.Acked, error) { return r.Broker.Ack(ctx, who, ids) })
}

// Group implements messages.Broker.
func (r retryingBroker[Who]) Group(ctx context.Context, who Who, change messages.GroupChange) (messages.Groups, error) {
	return retryUnavailable(ctx, func() (messages.Groups, error) { return r.Broker.Group(ctx, who, change) })
}

// retryUnavailable repeats a request until it is answered, ctx ends, or retryFor has passed.
func retryUnavailable[Out any](ctx context.Context, request func() (Out, error)) (Out, error) {
	end := time.NewTimer(retryFor)
	defer end.Stop()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		out, err := request()
		if !fault.Has(err, fault.Unavailable) {
			return out, err
		}
		select {
		case <-tick.C:
		case <-end.C:
			return out, err
		case <-ctx.Done():
			return out, err
		}
	}
}
