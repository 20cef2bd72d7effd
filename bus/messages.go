package bus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

const (
	// messagesRoot is the root of the subjects of ORCH_MESSAGES. The rest of a subject is "m.<message>" for a message,
	// "a.<message>.<recipient>" for a recipient that is done, or "g.<group>.<member>" for a membership. Recipients, groups and
	// members are digests of their names.
	messagesRoot = "orch.msg"
	// messagesNews is the subject on which nodes notify each other of new records. A lost notification only delays them.
	messagesNews = "orch.news.messages"
	// messagesPollEvery is how often a node polls for records of other nodes.
	messagesPollEvery = time.Second
)

// Messages is the message broker of a node. It stores messages in the stream ORCH_MESSAGES, which all nodes of a server follow.
type Messages struct {
	*messages.Service

	end   context.CancelFunc
	ended chan struct{}
}

// OpenMessages reads the messages of the store and follows new ones until Close. It ignores cfg.Store. UNAVAILABLE if the
// messages cannot be read.
func (s *Store) OpenMessages(ctx context.Context, cfg messages.Config) (*Messages, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Store = messageStore{s}
	m := &Messages{Service: messages.New(cfg), ended: make(chan struct{})}
	wake := make(chan struct{}, 1)
	news, err := s.conn.nc.Subscribe(messagesNews, func(*nats.Msg) {
		select {
		case wake <- struct{}{}:
		default: // one read covers all pending notifications
		}
	})
	if err != nil {
		return nil, sideFault(err, "the messages cannot be followed")
	}
	if err := m.readAll(ctx, s); err != nil {
		_ = news.Unsubscribe() // only fails on a closed connection
		return nil, err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.end = stop
	go func() {
		defer close(m.ended)
		defer func() { _ = news.Unsubscribe() }() // only fails on a closed connection
		m.follow(follow, s, wake, cfg.Logger)
	}()
	return m, nil
}

// Close stops following the stream. It is idempotent.
func (m *Messages) Close() {
	m.end()
	<-m.ended
}

// follow reads new records after each notification, and at every poll.
func (m *Messages) follow(ctx context.Context, s *Store, wake <-chan struct{}, log *slog.Logger) {
	tick := time.NewTicker(messagesPollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
		if err := m.read(ctx, s); err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelDebug, "messages_not_followed", slog.Any("error", err))
		}
	}
}

// readAll reads all existing records, and then advances the broker to the last position of the stream: the records at the
// last positions may have expired.
func (m *Messages) readAll(ctx context.Context, s *Store) error {
	info, err := s.messages.Info(ctx)
	if err != nil {
		return sideFault(err, "the messages cannot be read")
	}
	if err := m.read(ctx, s); err != nil {
		return err
	}
	m.AdvanceTo(info.State.LastSeq)
	return nil
}

// read reads all records after the last one read.
func (m *Messages) read(ctx context.Context, s *Store) error {
	for {
		page, err := s.conn.page(ctx, messagesStream, "", m.Next(), pageCount)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			m.AdvanceTo(0)
			return nil
		}
		for _, e := range page {
			r, err := decodeMessage(e)
			if err != nil {
				s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "message_not_readable", slog.Uint64("position", e.Seq), slog.Any("error", err))
				continue
			}
			m.Apply(e.Seq, r)
		}
		m.AdvanceTo(page[len(page)-1].Seq)
	}
}

// decodeMessage decodes a record and checks that it contains its message.
func decodeMessage(e entry) (messages.Record, error) {
	var r messages.Record
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return r, err
	}
	if (r.Kind == messages.Sent || r.Kind == messages.Done) && r.Message == nil {
		return r, errors.New("the record has no message")
	}
	return r, nil
}

// messageStore implements messages.Store.
type messageStore struct{ s *Store }

// messageSubject returns the subject of a record.
func messageSubject(r messages.Record) string {
	switch r.Kind {
	case messages.RecipientDone:
		return messagesRoot + ".a." + r.ID + "." + hashed(r.Who)
	case messages.Joined, messages.Left:
		return messagesRoot + ".g." + hashed(r.Group) + "." + hashed(r.Who)
	default:
		return messagesRoot + ".m." + r.Message.ID
	}
}

// Append implements messages.Store.
func (m messageStore) Append(ctx context.Context, r messages.Record) (uint64, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "a message cannot be encoded")
	}
	if err := m.s.space.checkRoom(len(data), time.Now()); err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: messageSubject(r), Data: data, Header: nats.Header{headHeader: {"message"}}}
	var opts []jetstream.PublishOpt
	if r.TTL > 0 {
		opts = append(opts, jetstream.WithMsgTTL(wholeSeconds(r.TTL)))
	}
	if r.Kind == messages.Sent {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(0))
	}
	ack, err := m.s.conn.js.PublishMsg(ctx, msg, opts...)
	var apiErr *jetstream.APIError
	if errors.As(err, &apiErr) && apiErr.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, fault.Wrap(fault.Conflict, err, "there is a message "+r.Message.ID+" already")
	}
	if err != nil {
		return 0, sideFault(err, "the message cannot be stored")
	}
	_ = m.s.conn.nc.Publish(messagesNews, nil) // if this fails, other nodes find the record at their next poll
	return ack.Sequence, nil
}

// wholeSeconds rounds up to whole seconds, because the server has TTLs in seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// Read implements messages.Store.
func (m messageStore) Read(ctx context.Context, id string) (messages.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	e, err := m.s.conn.newest(ctx, m.s.messages, messagesRoot+".m."+id)
	if err != nil {
		return messages.Record{}, sideFault(err, "the message cannot be read")
	}
	if e == nil {
		return messages.Record{}, fault.New(fault.NotFound, "there is no message %s", id)
	}
	r, err := decodeMessage(*e)
	if err != nil {
		return r, fault.Wrap(fault.DataLoss, err, "the message "+id+" cannot be read")
	}
	return r, nil
}

// Sync implements messages.Store.
func (m messageStore) Sync() error { return m.s.barrier().wait(messagesStream) }
