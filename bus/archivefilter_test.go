package bus_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/test/need"
)

// A history that is archived in several messages has one head, also after a restart.
func TestPastOfALargeHistory(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	var want events.Head
	for i := range 3 {
		r := c.Next(t, "node")
		r.Data = bytes.Repeat([]byte{byte('a' + i)}, 3<<20)
		seq, err := eventstest.Append(n, r)
		require.NoError(t, err)
		c.Accept(r, seq)
		want = r.Head
		want.Seq = seq
	}
	require.NoError(t, n.Archive(t.Context(), c.Task))
	n.Reopen(t)
	past := eventstest.ArchivedHeadsOf(t, n)
	assert.Equal(t, want.Seq, past[c.Task].Seq)
	assert.Equal(t, want.Rev, past[c.Task].Rev)
	assert.Equal(t, want.State, past[c.Task].State)
	assert.Len(t, past, 1)
	assert.Len(t, eventstest.History(t, n, c.Task, 1), 3)
}

// The first messages of an interrupted archiving are no archived history; the next archiving
// replaces them.
func TestPastOfACutArchiving(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	c.Grow(t, n, 2)
	subject := "orch.ar." + c.Task.Time().UTC().Format("20060102") + "." + string(c.Task)
	_, err := client(t, n).Publish(t.Context(), subject, []byte("1 1\nx\n"))
	require.NoError(t, err)
	assert.Empty(t, eventstest.ArchivedHeadsOf(t, n))
	assert.Contains(t, eventstest.HeadsOf(t, n), c.Task)
	n.Reopen(t) // an archiving of another process
	require.NoError(t, n.Archive(t.Context(), c.Task))
	assert.Equal(t, c.After, eventstest.ArchivedHeadsOf(t, n)[c.Task].Seq)
	requireIntact(t, n)
}

// Verify compares the head of an archived history with its commits.
func TestForgedPast(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"9 DONE 1 1 - x", "nonsense"} {
		t.Run(head, func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, bus.ServerConfig{})
			c := eventstest.NewChain()
			stored := c.Grow(t, n, 1)
			m := nats.NewMsg("orch.ar." + c.Task.Time().UTC().Format("20060102") + "." + string(c.Task))
			m.Data = fmt.Appendf(nil, "%d %d\n%s\n", stored[0].Seq, len(stored[0].Data), stored[0].Data)
			m.Header = nats.Header{"Orch-Parts": {"1"}, "Orch-Seq": {"1"}, "Orch": {head}}
			_, err := client(t, n).PublishMsg(t.Context(), m)
			require.NoError(t, err)
			report, err := n.Verify(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, 1, report.Found, report.Problems)
			assert.Equal(t, c.Task, report.Problems[0].Task)
			assert.Contains(t, report.Problems[0].What, "header")
		})
	}
}

// client is another user of the node's server.
func client(t *testing.T, n *bustest.Node) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(dialAppender(t, n).NATS())
	require.NoError(t, err)
	return js
}

// dialAppender connects as the only user who may write to the log.
func dialAppender(t *testing.T, n *bustest.Node) *bus.Conn {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.Appender(n.Server))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
