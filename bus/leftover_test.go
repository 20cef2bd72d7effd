package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events/eventstest"
)

// After a kill the server may bring back messages that it had removed: those that were the last ones of
// a block which holds notes of other removals. The archive knows better.
func TestArchiveKnowsBetterThanLeftovers(t *testing.T) {
	t.Parallel()
	n := startNode(t, bus.ServerConfig{})
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

// A task that is found to be over may still go on a little, such as with a single call. What it says after
// an archiving that was cut short is neither hidden behind the archived history nor removed.
func TestTaskGoesOnAfterAnArchivingThatWasCutShort(t *testing.T) {
	t.Parallel()
	n := startNode(t, bus.ServerConfig{})
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
	assert.Equal(t, uint64(5), eventstest.PastOf(t, n)[c.Task].Rev)
	assert.Empty(t, eventstest.HeadsOf(t, n))
}
