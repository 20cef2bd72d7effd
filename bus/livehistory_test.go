package bus_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// among stores the histories of tasks that run together: a commit of one is followed by those of all others.
func among(tb testing.TB, n *bustest.Node, chains []*eventstest.Chain, commits int) {
	tb.Helper()
	for range commits {
		var answered sync.WaitGroup
		answered.Add(len(chains))
		for _, c := range chains {
			r := c.Next(tb, "node")
			n.Append(r, func(seq uint64, err error) {
				if err != nil {
					tb.Error(err)
				}
				c.Accept(r, seq)
				answered.Done()
			})
		}
		answered.Wait()
	}
}

func newChains(count int) []*eventstest.Chain {
	chains := make([]*eventstest.Chain, count)
	for i := range chains {
		chains[i] = eventstest.NewChain()
	}
	return chains
}

// Histories are read along their links if they are short or among many others, and are complete in any case.
func TestLinkedHistories(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	for name, tc := range map[string]struct {
		together, commits int
		linked            bool
	}{
		"one commit":         {1, 1, true},
		"few":                {1, bus.FewLinked, true},
		"many together":      {1, bus.FewLinked + 1, false},
		"many apart":         {bus.PerLink, bus.FewLinked + 1, true},
		"many not far apart": {bus.PerLink / bus.FewLinked / 2, bus.FewLinked + 1, false},
		"too many":           {1, 201, false},
	} {
		chains := newChains(tc.together)
		among(t, n, chains, tc.commits)
		c := chains[len(chains)/2]
		assert.Equal(t, tc.linked, bus.Linked(t.Context(), n.Store, c.Task), name)
		requireChain(t, n, c)
		require.NoError(t, n.Archive(t.Context(), c.Task), name)
		requireChain(t, n, c)
	}
	for h, err := range n.ArchivedHeads(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, "a name: ü\n%", h.Name)
	}
	requireIntact(t, n)
}

// requireChain checks that a log has the history of a task from any revision.
func requireChain(t *testing.T, log events.Log, c *eventstest.Chain) {
	t.Helper()
	for from := range c.Rev {
		history := eventstest.History(t, log, c.Task, from+1)
		require.Len(t, history, int(c.Rev-from))
		require.Equal(t, c.After, history[len(history)-1].Seq)
	}
}

// A link that is wrong, as after the log was copied to other positions, costs a walk. So does a history that begins with commits of an
// older version.
func TestWrongLinks(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	js, err := jetstream.New(dialAppender(t, n).NATS())
	require.NoError(t, err)
	eventstest.NewChain().Grow(t, n, 3)
	for name, link := range map[string]string{
		"none": "", "before the commit": " 2", "the commit itself": " %", "after it": " 99999999", "no position": " x",
	} {
		c := eventstest.NewChain()
		c.Grow(t, n, 2)
		eventstest.NewChain().Grow(t, n, 1)
		raw, err := rawLog(t, n).GetMsg(t.Context(), c.After)
		require.NoError(t, err)
		head := strings.Split(raw.Header.Get("Orch"), " ")
		require.Equal(t, strconv.FormatUint(c.After-1, 10), head[6])
		head[0] = "3"
		link = strings.Replace(link, "%", strconv.FormatUint(c.After+2, 10), 1)
		r := c.Next(t, "node")
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: raw.Subject, Header: nats.Header{"Orch": {strings.Join(head[:6], " ") + link}}, Data: r.Data,
		})
		require.NoError(t, err)
		c.Accept(r, ack.Sequence)
		assert.False(t, bus.Linked(t.Context(), n.Store, c.Task), name)
		requireChain(t, n, c)
	}
	requireIntact(t, n)
}

// A history whose newest commit cannot be read is damaged, not shorter, and is not archived.
func TestADamagedEndIsNoEnd(t *testing.T) {
	t.Parallel()
	for _, commits := range []int{1, 2, 3, bus.FewLinked + 2} {
		n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
		c, others := eventstest.NewChain(), newChains(200)
		for range commits {
			c.Grow(t, n, 1)
			among(t, n, others, 1)
		}
		fillBlock(t, n)
		n.Stop(t)
		n.Start(t)
		flip(t, streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0], bus.LiveSubject(c.Task), 1)
		count := 0
		var err error
		for _, err = range n.Read(t.Context(), c.Task, 1) {
			count++
		}
		if commits > 1 { // nothing is left of a task of one
			require.True(t, fault.Has(err, fault.DataLoss), "%d commits: %d, %v", commits, count, err)
		}
		require.Error(t, n.Archive(t.Context(), c.Task), commits)
		requireChain(t, n, others[0])
	}
}

// fillBlock makes the server begin another block: it has the one to which it appends in memory.
func fillBlock(t *testing.T, log events.Log) {
	t.Helper()
	c := eventstest.NewChain()
	for range 12 {
		noise := make([]byte, 1<<20) // it does not get smaller when it is compressed
		for i := range noise {
			noise[i] = byte('a' + rand.IntN(26))
		}
		r := c.Next(t, string(noise))
		seq, err := eventstest.Append(log, r)
		require.NoError(t, err)
		c.Accept(r, seq)
	}
}

// A history with a commit that no link leads to is damaged, and is not archived without it.
func TestACommitBesideTheLinks(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	js, err := jetstream.New(dialAppender(t, n).NATS())
	require.NoError(t, err)
	c := eventstest.NewChain()
	all := c.Grow(t, n, 3)
	for _, from := range all[1:] {
		raw, err := rawLog(t, n).GetMsg(t.Context(), from.Seq)
		require.NoError(t, err)
		_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: raw.Subject, Header: nats.Header{"Orch": raw.Header["Orch"]}, Data: raw.Data})
		require.NoError(t, err)
	}
	assert.False(t, bus.Linked(t.Context(), n.Store, c.Task))
	for _, err = range n.Read(t.Context(), c.Task, 1) {
	}
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
	require.True(t, fault.Has(n.Archive(t.Context(), c.Task), fault.DataLoss))
}

// A store of an older version has no links, because older programs would not read them.
func TestAnOldStoreHasNoLinks(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: oldDir(t)})
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	raw, err := rawLog(t, n).GetMsg(t.Context(), c.After)
	require.NoError(t, err)
	assert.Len(t, strings.Split(raw.Header.Get("Orch"), " "), 6)
	assert.False(t, bus.Linked(t.Context(), n.Store, c.Task))
	requireChain(t, n, c)
}

// BenchmarkAmong measures reading and archiving histories whose commits have so many commits of others between them.
func BenchmarkAmong(b *testing.B) {
	for _, commits := range []int{1, 2, 3, 11} {
		for _, tasks := range []int{100, 1_000, 4_000} {
			b.Run(strconv.Itoa(commits)+"/"+strconv.Itoa(tasks), func(b *testing.B) {
				n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
				chains := newChains(tasks)
				among(b, n, chains, commits)
				b.Run("read", func(b *testing.B) {
					for i := range b.N {
						for _, err := range n.Read(b.Context(), chains[i%tasks].Task, 1) {
							require.NoError(b, err)
						}
					}
				})
				b.Run("archive", func(b *testing.B) {
					done := 0
					for i := range b.N {
						if i < tasks {
							require.NoError(b, n.Archive(b.Context(), chains[i].Task))
							done++
						}
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(done), "µs/task")
				})
			})
		}
	}
}
