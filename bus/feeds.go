package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

const (
	// feedWithin bounds a request about a stream. pullWithin is how long a request for a message waits at the server.
	feedWithin, pullWithin = 5 * time.Second, 5 * time.Second
	// feedAckWithin is the time after which the server hands out a message again that nobody has acknowledged.
	feedAckWithin = 15 * time.Second
	// feedPending is the number of messages that wait for an acknowledgement, or for their next try, from which a consumer gets no others.
	feedPending = 64
)

// Feeds are the streams of an external server that belong to others.
type Feeds struct{ conn *Conn }

// Feeds returns the streams of the server.
func (c *Conn) Feeds() *Feeds { return &Feeds{c} }

// Now returns the time of the server that has a stream. Errors: NOT_FOUND while there is no such stream, UNAVAILABLE.
func (f *Feeds) Now(ctx context.Context, stream string) (time.Time, error) {
	ctx, stop := f.request(ctx, stream, feedWithin)
	defer stop()
	s, err := f.conn.js.Stream(ctx, stream)
	if err != nil {
		return time.Time{}, feedFault(ctx, err, stream)
	}
	return s.CachedInfo().TimeStamp.UTC(), nil
}

// Open opens a consumer, which is created if there is none. One that exists keeps its place. Errors: NOT_FOUND while there is no such
// stream, VALIDATION_ERROR if the server refuses the consumer, UNAVAILABLE.
func (f *Feeds) Open(ctx context.Context, c hooks.Consumer) (*Feed, error) {
	ctx, stop := f.request(ctx, c.Stream, feedWithin)
	defer stop()
	consumer, err := f.conn.js.Consumer(ctx, c.Stream, c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = f.conn.js.CreateConsumer(ctx, c.Stream, feedConfig(c))
	} else if err == nil && consumer.CachedInfo().Config.FilterSubject != c.Subject {
		cfg := consumer.CachedInfo().Config
		cfg.FilterSubject = c.Subject
		consumer, err = f.conn.js.UpdateConsumer(ctx, c.Stream, cfg)
	}
	if err != nil {
		return nil, feedFault(ctx, err, c.Stream)
	}
	return &Feed{f, consumer, c.Stream}, nil
}

func feedConfig(c hooks.Consumer) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: c.Name, Description: "a hook of orch", FilterSubject: c.Subject,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: feedAckWithin, MaxDeliver: -1, MaxAckPending: feedPending,
	}
	if !c.Since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &c.Since
	}
	return cfg
}

// Remove removes a consumer, if there is one.
func (f *Feeds) Remove(ctx context.Context, c hooks.Consumer) error {
	ctx, stop := f.request(ctx, c.Stream, feedWithin)
	defer stop()
	err := f.conn.js.DeleteConsumer(ctx, c.Stream, c.Name)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return feedFault(ctx, err, c.Stream)
}

// Waiting returns the number of messages for a consumer that are not acknowledged.
func (f *Feeds) Waiting(ctx context.Context, c hooks.Consumer) (int, error) {
	ctx, stop := f.request(ctx, c.Stream, feedWithin)
	defer stop()
	consumer, err := f.conn.js.Consumer(ctx, c.Stream, c.Name)
	if err != nil {
		return 0, feedFault(ctx, err, c.Stream)
	}
	info := consumer.CachedInfo()
	return int(info.NumPending) + info.NumAckPending, nil //nolint:gosec // no stream has 2^63 messages
}

// request returns the context of a request about a stream. It ends when the server denies a subject of the stream, because a denied
// request gets no answer.
func (f *Feeds) request(ctx context.Context, stream string, within time.Duration) (request context.Context, stop func()) {
	ctx, expire := context.WithTimeout(ctx, within)
	ctx, cancel := context.WithCancelCause(ctx)
	forget := f.conn.denials.watch(func(d denial) {
		if d.concerns(stream) {
			cancel(d.fault())
		}
	})
	return ctx, func() { forget(); cancel(nil); expire() }
}

// feedFault returns the error for a stream that cannot be read, after a request with ctx.
func feedFault(ctx context.Context, err error, stream string) error {
	apiErr, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case fault.Has(context.Cause(ctx), fault.Forbidden):
		return context.Cause(ctx)
	case errors.Is(err, context.Canceled):
		return fault.From(err)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fault.Wrap(fault.NotFound, err, "the stream "+stream+" does not exist").WithHint("orch takes its messages as soon as it is made")
	case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, nats.ErrNoResponders):
		return fault.Wrap(fault.NotFound, err, "the consumer of the stream "+stream+" is gone").WithHint("orch makes another one")
	case refused:
		return fault.Wrap(fault.ValidationError, err, "the NATS server refuses the consumer of the stream "+stream+": "+apiErr.Description).
			WithHint("a stream with the retention WorkQueue needs --from all and a subject that no other consumer takes")
	default:
		return fault.Wrap(fault.Unavailable, err, "the NATS server does not answer for the stream "+stream).
			WithHint("check that the credential of the node may use it")
	}
}

// Feed hands out the messages for a consumer.
type Feed struct {
	feeds    *Feeds
	consumer jetstream.Consumer
	stream   string
}

// Next returns the next message. It waits for some seconds, and returns nil if none has come. Errors: as Feeds.Open.
func (f *Feed) Next(ctx context.Context) (*FeedMessage, error) {
	within, stop := f.feeds.request(ctx, f.stream, pullWithin)
	defer stop()
	m, err := f.consumer.Next(jetstream.FetchContext(within))
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = m.Nak() // if it is lost, the server waits longer
		}
		return nil, fault.From(ctx.Err())
	case err != nil && fault.Has(context.Cause(within), fault.Forbidden):
		return nil, context.Cause(within)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoMessages):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, feedFault(within, err, f.stream)
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, feedFault(within, err, f.stream)
	}
	return &FeedMessage{f.feeds, m, hooks.Message{
		Stream: f.stream, Subject: m.Subject(), Position: meta.Sequence.Stream, At: meta.Timestamp, Tries: meta.NumDelivered,
		Headers: feedHeaders(m.Headers()), Body: m.Data(),
	}}, nil
}

// feedHeaders returns headers by their names in lower case. Several of one name are joined.
func feedHeaders(all nats.Header) hooks.Headers {
	headers := make(hooks.Headers, len(all))
	for name, values := range all {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return headers
}

// FeedMessage is a message that waits for an acknowledgement.
type FeedMessage struct {
	feeds   *Feeds
	msg     jetstream.Msg
	message hooks.Message
}

// Message returns the message.
func (m *FeedMessage) Message() *hooks.Message { return &m.message }

// Done acknowledges the message, and returns when the server knows.
func (m *FeedMessage) Done(ctx context.Context) error {
	ctx, stop := m.feeds.request(ctx, m.message.Stream, feedAckWithin)
	defer stop()
	return m.fault(ctx, m.msg.DoubleAck(ctx))
}

// Refuse ends the deliveries of the message.
func (m *FeedMessage) Refuse(reason string) error {
	return m.fault(context.Background(), m.msg.TermWithReason(reason))
}

// Later asks for the message again after a while.
func (m *FeedMessage) Later(after time.Duration) error {
	if after <= 0 {
		return m.fault(context.Background(), m.msg.Nak())
	}
	return m.fault(context.Background(), m.msg.NakWithDelay(after))
}

func (m *FeedMessage) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return feedFault(ctx, err, m.message.Stream)
}
