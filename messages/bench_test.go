package messages_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

// void is a store that stores nothing, so that only the service is measured.
type void struct {
	messages.Store

	position uint64
}

// Append implements messages.Store.
func (v *void) Append(context.Context, messages.Record) (uint64, error) {
	v.position++
	return v.position, nil
}

// Read implements messages.Store.
func (*void) Read(context.Context, string) (messages.Record, error) {
	return messages.Record{}, fault.New(fault.NotFound, "it is not kept")
}

// Sync implements messages.Store.
func (*void) Sync() error { return nil }

// filled returns a service with so many messages in each of so many inboxes.
func filled(b *testing.B, inboxes, each int, cfg messages.Config) *messages.Service {
	b.Helper()
	store := &void{}
	cfg.Store, cfg.Bytes = store, 1<<30
	s := messages.New(cfg)
	now := time.Now()
	for n := range inboxes * each {
		store.position++
		s.Apply(store.position, messages.Record{Kind: messages.Sent, Message: &messages.Message{
			ID: events.NewMessageID(now), Sender: "agent:s", To: []string{inbox(n % inboxes)}, Type: "status",
			Priority: 2, At: now, ExpiresAt: now.AddDate(100, 0, 0), Payload: []byte(`{"text":"hello"}`),
		}})
	}
	s.AdvanceTo(store.position)
	return s
}

func inbox(n int) string { return "agent:a" + strconv.Itoa(n) }

// The cost of a message for a full store: 1,000 inboxes with 50 messages each.
func BenchmarkSendToAFullStore(b *testing.B) {
	s := filled(b, 1000, 50, messages.Config{Messages: 50_000})
	for n := 0; b.Loop(); n++ {
		_, err := s.Send(b.Context(), "agent:s", messages.Draft{To: []string{inbox(n % 1000)}, Payload: []byte(`1`)})
		if !fault.Has(err, fault.QuotaExceeded) {
			b.Fatal(err)
		}
	}
}

// The cost of a message for a full inbox of 10,000: one that is refused, and one that displaces another.
func BenchmarkSendToAFullInbox(b *testing.B) {
	for priority, what := range map[int]string{2: "refused", 3: "displaces"} {
		b.Run(what, func(b *testing.B) {
			s := filled(b, 1, 10_000, messages.Config{Messages: 50_000, Queue: 10_000})
			urgent := messages.Draft{To: []string{inbox(0)}, Payload: []byte(`1`), Priority: &priority}
			for n := 0; b.Loop(); n++ {
				_, err := s.Send(b.Context(), "agent:s", urgent)
				if priority == 2 != (err != nil) && n < 10_000 {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSweep measures a sweep without expired messages: 1,000 inboxes with 50 messages each.
func BenchmarkSweep(b *testing.B) {
	now := time.Now()
	s := filled(b, 1000, 50, messages.Config{Messages: 50_000, Now: func() time.Time { return now }})
	for b.Loop() {
		now = now.Add(10 * time.Second) // each time it is due
		s.AdvanceTo(0)
	}
}

// The cost of a page of 20 of an inbox with 10,000 messages, without payloads.
func BenchmarkInbox(b *testing.B) {
	s := filled(b, 1, 10_000, messages.Config{Queue: 10_000})
	for b.Loop() {
		p, err := s.Inbox(b.Context(), inbox(0), messages.Query{Heads: true})
		require.NoError(b, err)
		if len(p.Messages) != 20 || p.Waiting != 10_000 {
			b.Fatal(fmt.Sprint(len(p.Messages), p.Waiting))
		}
	}
}

// The cost of an acknowledgement and a message, in an inbox with 10,000 messages.
func BenchmarkAckAndSend(b *testing.B) {
	s := filled(b, 1, 9_999, messages.Config{Messages: 50_000, Queue: 10_000})
	for b.Loop() {
		r, err := s.Send(b.Context(), "agent:s", messages.Draft{To: []string{inbox(0)}, Payload: []byte(`1`)})
		require.NoError(b, err)
		a, err := s.Ack(b.Context(), inbox(0), []string{r.ID})
		require.NoError(b, err)
		if len(a.Acknowledged) != 1 {
			b.Fatal(a)
		}
	}
}
