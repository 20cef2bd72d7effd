package bus_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
	"github.com/orch-dev/orch/rpc"
)

// collected are the values of a sequence without an error.
func collected[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

// The leader of a replicated stream returns the same as a single server.
func TestReadingReplicas(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	var tasks []events.TaskID
	for i := range 60 {
		c := eventstest.NewChain()
		for range 1 + i { // more than one page in all, and in some histories
			r := c.Next(t, strings.Repeat("x", i*10))
			seq, err := eventstest.Append(n, r)
			require.NoError(t, err)
			c.Accept(r, seq)
		}
		tasks = append(tasks, c.Task)
	}
	require.NoError(t, n.Archive(t.Context(), tasks[7]))
	read := func() (all []any) {
		for _, id := range append(tasks, "TASK_01JD0000000000000000000001") {
			for _, from := range []uint64{2, 45, 50, 1000} {
				all = append(all, collected(t, n.Read(t.Context(), id, from)))
			}
		}
		byTask := func(a, b events.Head) int { return strings.Compare(string(a.Task), string(b.Task)) }
		all = append(all, collected(t, n.Scan(t.Context(), 5)), collected(t, n.HeadsAfter(t.Context(), 9)))
		all = append(all, slices.SortedFunc(slices.Values(collected(t, n.Heads(t.Context()))), byTask))
		return append(all, slices.SortedFunc(slices.Values(collected(t, n.ArchivedHeads(t.Context()))), byTask))
	}
	alone := read()
	n.Conn.PretendReplicas()
	assert.Equal(t, alone, read())
	require.NoError(t, n.Archive(t.Context(), tasks[8]))
	assert.Len(t, collected(t, n.Read(t.Context(), tasks[8], 1)), 9)
}

// Messages are the same on replicated streams.
func TestMessagesOfReplicas(t *testing.T) {
	t.Parallel()
	messagestest.TestBroker(t, func(t *testing.T, cfg messages.Config) (messages.Broker[string], func() messages.Broker[string]) {
		t.Helper()
		n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
		n.Conn.PretendReplicas()
		m := openMessages(t, n, cfg)
		return m, func() messages.Broker[string] {
			m.Close()
			n.Stop(t)
			n.Start(t)
			n.Conn.PretendReplicas()
			m = openMessages(t, n, cfg)
			return m
		}
	})
}

// A node that takes over ends the requests to the previous node, which has died while the server of both survives.
func TestTakeOverEndsRequests(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	arrived := make(chan struct{})
	silent, err := rpc.Serve(n.Conn, "orch.silent", map[string]rpc.Method{
		"ask": func(ctx context.Context, _ []byte) ([]byte, error) {
			close(arrived)
			<-ctx.Done()
			return nil, fault.From(ctx.Err())
		},
	}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer stop()
		_ = silent.Close(ctx) // the request is still there
	})
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: n.Server.Addr(), User: bus.OperatorUser, Password: bustest.Passwords(t, n.Config.DataDir)[bus.OperatorUser]})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	answer := make(chan error, 1)
	go func() { answer <- rpc.Call(context.Background(), c, "orch.silent.ask", strconv.Itoa(1), nil) }()
	<-arrived
	require.NoError(t, n.Conn.AnnounceTakeover(t.Context()))
	err = <-answer
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	assert.Equal(t, bus.OutcomeUnknown, fault.From(err).Reason)
}

// A server of a cluster repeats the purges of its log when it starts: a purge of all messages must not name a position,
// or it would remove later messages.
func TestArchivingPurgesNoFuture(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	purges, err := nc.SubscribeSync("$JS.API.STREAM.PURGE.*")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	last := uint64(0)
	for _, stream := range []string{"ORCH_EVENTS", "ORCH_EVENTS"} {
		m, err := purges.NextMsg(time.Minute)
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(m.Subject, "."+stream), m.Subject)
		var asked struct{ Seq uint64 }
		require.NoError(t, json.Unmarshal(m.Data, &asked))
		assert.LessOrEqual(t, asked.Seq, uint64(4), "the log has three messages")
		last = asked.Seq
	}
	assert.Equal(t, uint64(4), last, "in the end all goes that the archive holds")
	_, err = purges.NextMsg(time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout, "the archive had nothing of it before")
}
