package bus_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// A search finds every revision with few requests, however the commits of the task are spread over the log.
func TestSearchForARevision(t *testing.T) {
	t.Parallel()
	const commits = 2000
	random := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		gap func(rev int) uint64 // the distance to the position of the next revision
		max int                  // requests
	}{
		"alone":              {func(int) uint64 { return 1 }, 1},
		"even":               {func(int) uint64 { return 11 }, 1},
		"random":             {func(int) uint64 { return 1 + random.Uint64N(20) }, 4},
		"a pause":            {func(rev int) uint64 { return map[bool]uint64{true: 1_000_000, false: 1}[rev == commits/2] }, 30},
		"slower and slower":  {func(rev int) uint64 { return 1 + uint64(rev*rev) }, 30},
		"fast after a start": {func(rev int) uint64 { return map[bool]uint64{true: 100_000, false: 1}[rev < 100] }, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			positions := []uint64{7}
			for rev := 1; rev < commits; rev++ {
				positions = append(positions, positions[rev-1]+c.gap(rev))
			}
			for from := uint64(bus.MaxSkip + 2); from <= commits+2; from++ {
				rev, seq, requests, err := bus.SearchPlace(positions, from)
				require.NoError(t, err)
				require.Equal(t, positions[rev-1], seq)
				require.LessOrEqual(t, rev, from)
				require.LessOrEqual(t, min(from, commits)-rev, uint64(bus.MaxSkip))
				require.LessOrEqual(t, requests, c.max, "revision %d", from)
			}
		})
	}
}

// A search ends when revisions are missing between two neighbours, or when the positions disagree with the revisions.
func TestSearchInADamagedLog(t *testing.T) {
	t.Parallel()
	_, _, _, err := bus.SearchPlace(append(slices.Repeat([]uint64{5}, 100), 6), 50)
	require.Error(t, err)
}

// A reader that goes on where it stopped needs one request for the next page, and one to see that the task is not archived.
func TestTheNextPageNeedsNoSearch(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	c.Grow(t, n, 500)
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	gets, err := nc.SubscribeSync("$JS.API.DIRECT.GET.ORCH_EVENTS.>")
	require.NoError(t, err)
	pages, err := nc.SubscribeSync("$JS.API.DIRECT.GET.ORCH_EVENTS")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for i, want := range []int{3, 1, 1} { // the first page: the first commit, a guess, the page
		assert.Len(t, eventstest.Page(t, n, c.Task, uint64(200+5*i), 5), 5)
		require.NoError(t, nc.Flush())
		assert.Len(t, drain(t, pages), want, "page %d", i)
	}
	assert.Len(t, drain(t, gets), 1, "the newest commit")
}

// drain returns the requests that have arrived.
func drain(t *testing.T, sub *nats.Subscription) (all []map[string]any) {
	t.Helper()
	for {
		waiting, _, err := sub.Pending()
		require.NoError(t, err)
		if waiting == 0 {
			return all
		}
		m, err := sub.NextMsgWithContext(t.Context())
		require.NoError(t, err)
		request := map[string]any{}
		if len(m.Data) > 0 {
			require.NoError(t, json.Unmarshal(m.Data, &request))
		}
		all = append(all, request)
	}
}

// A reader in the middle reports a revision that is missing after its place, and only that.
func TestReadingFromTheMiddleFindsGaps(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	stored := c.Grow(t, n, 300)
	stream, err := client(t, n).Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	page := eventstest.Page(t, n, c.Task, 191, 9) // remembers revision 199
	require.NoError(t, stream.DeleteMsg(t.Context(), stored[199].Seq))
	for _, from := range []uint64{200, 150, 1} {
		var got []uint64
		var last error
		for s, err := range n.Read(t.Context(), c.Task, from) {
			if last = err; err == nil {
				got = append(got, s.Seq)
			}
		}
		assert.Len(t, got, int(200-from), "from %d", from)
		assert.Equal(t, fault.DataLoss, fault.CodeOf(last))
		require.ErrorContains(t, last, "revision 200 is not in the log")
	}
	assert.Equal(t, stored[190:199], page)
	assert.Equal(t, stored[280:], eventstest.History(t, n, c.Task, 281))
}

// Another process may archive a task between two pages. A place that a reader has left then means nothing.
func TestPagesAcrossAnArchivingElsewhere(t *testing.T) {
	t.Parallel()
	ns := externalServer(t, 1<<30)
	here, there := externalStore(t, ns), externalStore(t, ns)
	for _, next := range []uint64{11, 101, 150} {
		c := eventstest.NewChain()
		all := c.Grow(t, here, 200)
		assert.Equal(t, all[90:100], eventstest.Page(t, here, c.Task, 91, 10))
		require.NoError(t, there.Archive(t.Context(), c.Task))
		assert.Equal(t, archived(all[next-1:]), eventstest.History(t, here, c.Task, next))
	}
}

// An archiving that was interrupted after it had removed the first commit leaves the history to the archive, from whatever
// revision it is read.
func TestPagesOfAHistoryWithoutItsBeginning(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	all := c.Grow(t, n, 200)
	stream, err := client(t, n).Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), all[0].Seq))
	for _, from := range []uint64{2, 100, 200} { // and the archive has nothing
		assert.Empty(t, eventstest.History(t, n, c.Task, from))
	}
}

// Every page of an archived history of several messages can be read, whatever the sizes of its commits.
func TestPagesOfAnArchivedHistoryOfManyParts(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	growBy(t, n, c, slices.Repeat([]int{10}, 150)...)
	growBy(t, n, c, slices.Repeat([]int{1500 << 10}, 12)...)
	growBy(t, n, c, slices.Repeat([]int{10}, 50)...)
	growBy(t, n, c, slices.Repeat([]int{3 << 20}, 4)...)
	growBy(t, n, c, 10, 10)
	all := eventstest.History(t, n, c.Task, 1)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	for from := 1; from <= len(all); from++ {
		if from > 3 && from < 145 || from > 170 && from < 205 {
			continue // like their neighbours
		}
		want := archived(all[from-1 : min(from+1, len(all))])
		require.Equal(t, want, eventstest.Page(t, n, c.Task, uint64(from), 2), "from %d", from)
	}
	assert.Equal(t, archived(all[155:]), eventstest.History(t, n, c.Task, 156))
}

// An archived history that lacks a message is not whole, from whatever revision it is read.
func TestPagesOfAnArchivedHistoryThatLacksAPart(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	growBy(t, n, c, slices.Repeat([]int{3 << 20}, 4)...)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	stream, err := client(t, n).Stream(t.Context(), "ORCH_ARCHIVE")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), 2))
	for from := range uint64(5) {
		assert.Empty(t, eventstest.History(t, n, c.Task, from))
	}
}
