package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
)

// After a kill the server may bring back removed messages: the last ones of a
// block that records other removals. The archive takes precedence.
func TestArchiveKnowsBetterThanLeftovers(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	stored := c.Grow(t, n, 4)
	js := client(t, n)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	var kept []*nats.Msg
	for _, i := range []int{0, 1, 3} {
		raw, err := stream.GetMsg(t.Context(), stored[i].Seq)
		require.NoError(t, err)
		kept = append(kept, &nats.Msg{Subject: raw.Subject, Header: nats.Header{"Orch": raw.Header["Orch"]}, Data: raw.Data})
	}
	require.NoError(t, n.Archive(t.Context(), c.Task))
	for _, m := range kept {
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
		history := eventstest.History(t, n, c.Task, 1)
		require.Len(t, history, 4)
		assert.Equal(t, stored[3].Seq, history[3].Seq)
	}
	n.Reopen(t)
	assert.Len(t, eventstest.History(t, n, c.Task, 2), 3)
}

// A finished task may get further commits, such as those of a single call. Commits after
// an interrupted archiving are neither hidden behind the archived history nor removed.
func TestTaskGoesOnAfterAnArchivingThatWasCutShort(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := cutShort(t, n)
	added := c.Grow(t, n, 2)

	assert.Equal(t, added, eventstest.History(t, n, c.Task, 4))
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
	assert.Equal(t, uint64(1), report.Tasks)
	for range 2 {
		require.NoError(t, n.Archive(t.Context(), c.Task))
		history := eventstest.History(t, n, c.Task, 1)
		require.Len(t, history, 5)
		assert.True(t, history[0].Archived)
		assert.Equal(t, added[1].Data, history[4].Data)
	}
	assert.Equal(t, uint64(5), eventstest.ArchivedHeadsOf(t, n)[c.Task].Rev)
	assert.Empty(t, eventstest.HeadsOf(t, n))
}

// cutShort returns the history of a task of three commits that is archived as a whole, while its last commit
// is still in the live log.
func cutShort(t *testing.T, n *bustest.Node) *eventstest.Chain {
	t.Helper()
	c := eventstest.NewChain()
	stored := c.Grow(t, n, 3)
	js := client(t, n)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	raw, err := stream.GetMsg(t.Context(), stored[2].Seq)
	require.NoError(t, err)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	back, err := js.PublishMsg(t.Context(), &nats.Msg{
		Subject: raw.Subject, Header: nats.Header{"Orch": raw.Header["Orch"]}, Data: raw.Data,
	})
	require.NoError(t, err)
	c.After = back.Sequence
	return c
}

// The further commits of such a task may need more than one message.
func TestTaskGoesOnWithMuchAfterAnArchivingThatWasCutShort(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := cutShort(t, n)
	growBy(t, n, c, 2<<20, 3<<20, 7<<20, 1<<20, 1<<20)
	want := eventstest.History(t, n, c.Task, 1)
	require.Len(t, want, 8)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	assert.Equal(t, archived(want), eventstest.History(t, n, c.Task, 1))
	assert.Empty(t, eventstest.HeadsOf(t, n))
	past := eventstest.ArchivedHeadsOf(t, n)
	assert.Len(t, past, 1)
	assert.Equal(t, uint64(8), past[c.Task].Rev)
}

// growBy appends commits of so many bytes.
func growBy(t *testing.T, log events.Log, c *eventstest.Chain, sizes ...int) {
	t.Helper()
	for _, size := range sizes {
		r := c.Next(t, strings.Repeat("x", size))
		seq, err := eventstest.Append(log, r)
		require.NoError(t, err)
		c.Accept(r, seq)
	}
}

// A server may permit less than the parts of an archived history usually have.
func TestArchiveOnServerOfSmallMessages(t *testing.T) {
	t.Parallel()
	store := externalStore(t, externalServer(t, 1<<30))
	c := eventstest.NewChain()
	growBy(t, store, c, 600<<10, 600<<10, 600<<10, 10)
	want := eventstest.History(t, store, c.Task, 1)
	require.NoError(t, store.Archive(t.Context(), c.Task))
	assert.Equal(t, archived(want), eventstest.History(t, store, c.Task, 1))
	_, err := eventstest.Append(store, eventstest.NewChain().Next(t, strings.Repeat("x", 1<<20)))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}

// externalServer starts a server with the defaults for messages and so many bytes for its streams.
func externalServer(t *testing.T, size int64) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: t.TempDir(), Port: -1, NoSigs: true, NoLog: true, JetStreamMaxStore: size,
	})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(10*time.Second))
	return ns
}

// externalStore opens the log on it.
func externalStore(t *testing.T, ns *server.Server) *bus.Store {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := bus.Dial(ctx, bus.DialConfig{URL: ns.ClientURL()})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	store, err := conn.OpenStore(ctx, bus.StoreConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(ctx)) })
	return store
}

// A store closes without an error if the external server is gone: the previous mark is still correct.
func TestStoreEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	ns := externalServer(t, 1<<30)
	store := externalStore(t, ns)
	growBy(t, store, eventstest.NewChain(), 10)
	ns.Shutdown()
	ns.WaitForShutdown()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	require.NoError(t, store.Close(ctx))
}
