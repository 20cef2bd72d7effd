package messages_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBroker(t *testing.T) {
	t.Parallel()
	messagestest.TestBroker(t, func(_ *testing.T, cfg messages.Config) (messages.Broker[string], func() messages.Broker[string]) {
		store := &messagestest.Store{}
		return store.Open(cfg), func() messages.Broker[string] { return store.Open(cfg) }
	})
}

// A call acts for the identity that made it.
func TestForCalls(t *testing.T) {
	t.Parallel()
	store := &messagestest.Store{}
	broker := messages.BrokerForCalls(store.Open(messages.Config{}), func(_ context.Context, c messages.Call) (string, error) {
		if c.Attempt != 1 {
			return "", fault.New(fault.Conflict, "too late")
		}
		return "agent:" + c.Task, nil
	})
	one := messages.Call{Task: "one", Attempt: 1}
	r, err := broker.Send(t.Context(), one, messages.Draft{To: []string{"agent:one", "group:g"}, Payload: []byte(`1`)})
	require.NoError(t, err)
	_, err = broker.Group(t.Context(), one, messages.GroupChange{Join: "g"})
	require.NoError(t, err)
	p, err := broker.Inbox(t.Context(), one, messages.Query{})
	require.NoError(t, err)
	require.Len(t, p.Messages, 1)
	assert.Equal(t, "agent:one", p.Messages[0].Sender)
	a, err := broker.Ack(t.Context(), one, []string{r.ID})
	require.NoError(t, err)
	assert.Equal(t, []string{r.ID}, a.Acknowledged)
	late := messages.Call{Task: "one", Attempt: 2}
	_, err = broker.Send(t.Context(), late, messages.Draft{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	_, err = broker.Inbox(t.Context(), late, messages.Query{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	_, err = broker.Ack(t.Context(), late, nil)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	_, err = broker.Group(t.Context(), late, messages.GroupChange{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
}

// Unknown recipients are reported, and the message waits for them nevertheless.
func TestUnknownRecipients(t *testing.T) {
	t.Parallel()
	store := &messagestest.Store{}
	broker := store.Open(messages.Config{Members: func(context.Context) []string { return []string{"agent:bob"} }})
	r, err := broker.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob", "agent:bop", "all", "group:g"}, Payload: []byte(`1`)})
	require.NoError(t, err)
	assert.Equal(t, []string{"agent:bop", "group:g"}, r.Unknown)
}

// Records of other nodes may arrive after own records with higher positions: those are invisible until then.
func TestRecordsAhead(t *testing.T) {
	t.Parallel()
	service := messages.New(messages.Config{Store: &messagestest.Store{}})
	sent := func(sender string) messages.Record {
		m, err := messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`1`)}.Message(sender, messagestest.NewClock().Now())
		require.NoError(t, err)
		return messages.Record{Kind: messages.Sent, Message: &m}
	}
	see := func() []string {
		p, err := service.Inbox(t.Context(), "agent:bob", messages.Query{InOrder: true, Heads: true})
		require.NoError(t, err)
		who := []string{}
		for _, m := range p.Messages {
			who = append(who, m.Sender)
		}
		return who
	}
	service.Apply(2, sent("user:second"))
	assert.Empty(t, see())
	assert.EqualValues(t, 1, service.Next())
	service.Apply(1, sent("user:first"))
	service.Apply(1, sent("user:again"))
	assert.Equal(t, []string{"user:first", "user:second"}, see())
	service.Apply(9, sent("user:ninth"))
	service.AdvanceTo(8)
	assert.Equal(t, []string{"user:first", "user:second", "user:ninth"}, see())
	assert.EqualValues(t, 10, service.Next())
}

// When a node stops, no reader waits.
func TestEndWaits(t *testing.T) {
	t.Parallel()
	service := (&messagestest.Store{}).Open(messages.Config{})
	wait := func() error {
		_, err := service.Inbox(context.WithoutCancel(t.Context()), "agent:bob", messages.Query{Wait: messages.MaxWait})
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	service.StopWaits()
	service.StopWaits()
	if err := <-ended; err != nil { // it began too late
		assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	}
	assert.Equal(t, fault.Unavailable, fault.CodeOf(wait()))
	_, err := service.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`1`)})
	require.NoError(t, err)
	require.NoError(t, wait(), "what is there is given out")
}

// lives is a store that records the TTLs of records.
type lives struct {
	messagestest.Store

	done []time.Duration
}

// Append implements messages.Store.
func (l *lives) Append(ctx context.Context, r messages.Record) (uint64, error) {
	if r.Kind == messages.Done {
		l.done = append(l.done, r.TTL)
	}
	return l.Store.Append(ctx, r)
}

// Done records are kept for some hours, and only for minutes when there are many: the store stays small.
func TestDoneIsForgotten(t *testing.T) {
	t.Parallel()
	store := &lives{}
	clock := messagestest.NewClock()
	service := messages.New(messages.Config{Store: store, Now: clock.Now})
	deal := func(ttl time.Duration) time.Duration {
		r, err := service.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, TTL: ttl, Payload: []byte(`1`)})
		require.NoError(t, err)
		_, err = service.Ack(t.Context(), "agent:bob", []string{r.ID})
		require.NoError(t, err)
		return store.done[len(store.done)-1]
	}
	clock.Add(time.Hour - time.Duration(clock.Now().Minute())*time.Minute) // the beginning of an hour
	assert.Equal(t, 4*time.Hour, deal(0))
	assert.InDelta(t, time.Minute, deal(time.Minute), float64(time.Second))
	for range 20_000 {
		deal(time.Minute)
	}
	assert.Equal(t, 10*time.Minute, deal(0))
	clock.Add(time.Hour)
	assert.Equal(t, 4*time.Hour, deal(0))
}

// Waiting counts the pending messages of an identity, and has no effect on them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	store := &messagestest.Store{}
	broker := store.Open(messages.Config{})
	assert.Zero(t, broker.Waiting("agent:bob"))
	r, err := broker.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob", "all"}, Payload: []byte(`1`)})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{broker.Waiting("agent:bob"), broker.Waiting("agent:bob")})
	_, err = broker.Ack(t.Context(), "agent:bob", []string{r.ID})
	require.NoError(t, err)
	assert.Zero(t, broker.Waiting("agent:bob"))
}
