package bus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

// others starts a server with a stream ORDERS, and connects to it.
func others(t *testing.T) (*bustest.Stream, *bus.Feeds, string) {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	url := strings.Replace(n.Server.Addr(), "://", "://operator:"+bustest.Passwords(t, n.Config.DataDir)[bus.OperatorUser]+"@", 1)
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return bustest.NewStream(t, url, "ORDERS", "orders.>"), c.Feeds(), url
}

// arrive returns the next message.
func arrive(t *testing.T, feed *bus.Feed) *bus.FeedMessage {
	t.Helper()
	m, err := feed.Next(t.Context())
	require.NoError(t, err)
	require.NotNil(t, m)
	return m
}

func TestFeedKeepsItsPlace(t *testing.T) {
	t.Parallel()
	stream, feeds, _ := others(t)
	stream.Publish(t, "orders.eu.created", "old")
	now, err := feeds.Now(t.Context(), "ORDERS")
	require.NoError(t, err)
	c := hooks.Consumer{Stream: "ORDERS", Subject: "orders.*.created", Name: "orch-a", Since: now}
	feed, err := feeds.Open(t.Context(), c)
	require.NoError(t, err)
	stream.Publish(t, "orders.eu.paid", "other")
	stream.Publish(t, "orders.eu.created", "one", "Nats-Msg-Id", "id-1", "X-A", "b")
	stream.Publish(t, "orders.us.created", "two")
	first := arrive(t, feed)
	got := *first.Message()
	assert.WithinDuration(t, time.Now(), got.At, time.Minute)
	assert.Equal(t, hooks.Headers{"nats-msg-id": "id-1", "x-a": "b"}, got.Headers)
	assert.Equal(t, []any{"ORDERS", "orders.eu.created", uint64(3), uint64(1), "one"}, []any{got.Stream, got.Subject, got.Position, got.Tries, string(got.Body)})
	require.NoError(t, first.Later(0))
	again := arrive(t, feed)
	for again.Message().Position != 3 { // the server may hand out the other one first
		require.NoError(t, again.Later(0))
		again = arrive(t, feed)
	}
	assert.Equal(t, got.ID(), again.Message().ID(), "a message that comes again has the id that it had")
	assert.EqualValues(t, 2, again.Message().Tries)
	require.NoError(t, again.Done(t.Context()))
	n, err := feeds.Waiting(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, 1, n)

	// Another process, with another subject, goes on where this one was.
	c.Subject = "orders.>"
	feed, err = feeds.Open(t.Context(), c)
	require.NoError(t, err)
	stream.Publish(t, "orders.us.paid", "three")
	var bodies []string
	for range 2 {
		m := arrive(t, feed)
		bodies = append(bodies, string(m.Message().Body))
		require.NoError(t, m.Refuse("for a reason"))
	}
	assert.ElementsMatch(t, []string{"two", "three"}, bodies)
	require.NoError(t, feeds.Remove(t.Context(), c))
	assert.Empty(t, stream.Consumers(t))
	require.NoError(t, feeds.Remove(t.Context(), c))
}

func TestFeedOfAStreamThatIsNotThere(t *testing.T) {
	t.Parallel()
	stream, feeds, _ := others(t)
	c := hooks.Consumer{Stream: "ORDERS", Name: "orch-a"}
	feed, err := feeds.Open(t.Context(), c)
	require.NoError(t, err)
	before := stream.Publish(t, "orders.x", "1")
	m := arrive(t, feed)
	id := m.Message().ID()
	require.NoError(t, m.Done(t.Context()))
	stream.Delete(t)
	_, err = feed.Next(t.Context())
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	_, err = feeds.Open(t.Context(), c)
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	assert.Contains(t, err.Error(), "the stream ORDERS does not exist")
	_, err = feeds.Now(t.Context(), "ORDERS")
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	require.NoError(t, feeds.Remove(t.Context(), c))

	stream.Make(t)
	assert.Equal(t, before, stream.Publish(t, "orders.x", "1"), "positions begin again")
	feed, err = feeds.Open(t.Context(), c)
	require.NoError(t, err)
	assert.NotEqual(t, id, arrive(t, feed).Message().ID(), "ids do not")
}

func TestFeedOfAWorkQueue(t *testing.T) {
	t.Parallel()
	_, feeds, url := others(t)
	queue := bustest.NewWorkQueue(t, url, "JOBS", "jobs.>")
	queue.Publish(t, "jobs.a", "1")
	_, err := feeds.Open(t.Context(), hooks.Consumer{Stream: "JOBS", Name: "orch-a", Since: time.Now()})
	require.True(t, fault.Has(err, fault.ValidationError), "%v", err)
	assert.Contains(t, fault.From(err).Hint, "--from all")
	feed, err := feeds.Open(t.Context(), hooks.Consumer{Stream: "JOBS", Name: "orch-a"})
	require.NoError(t, err)
	require.NoError(t, arrive(t, feed).Done(t.Context()))
	assert.Zero(t, queue.Left(t))
}
