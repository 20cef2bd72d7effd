package bus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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

const (
	ofTask = "Nats-Expected-Last-Subject-Sequence"
	ofLog  = "Nats-Expected-Last-Sequence"
)

// conditions returns the headers with the conditions of the messages of a task in the log.
func conditions(t *testing.T, n *bustest.Node, task events.TaskID) (all []string) {
	t.Helper()
	js, err := jetstream.New(n.Conn.NATS())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	for _, s := range eventstest.History(t, n, task, 1) {
		m, err := stream.GetMsg(t.Context(), s.Seq)
		require.NoError(t, err)
		for _, header := range []string{ofTask, ofLog} {
			if value := m.Header.Get(header); value != "" {
				all = append(all, header+" "+value)
			}
		}
	}
	return all
}

// intrude lets somebody else write a commit into the log, who has the credential of the appender.
func intrude(t *testing.T, n *bustest.Node, r events.Record) {
	t.Helper()
	m := nats.NewMsg(bus.LiveSubject(r.Task))
	m.Data = r.Data
	m.Header.Set("Orch", fmt.Sprintf("%d IN_PROGRESS %d %d - intruder", r.Rev, r.At.UnixMicro(), r.At.UnixMicro()))
	_, err := client(t, n).PublishMsg(t.Context(), m)
	require.NoError(t, err)
}

// The second commit of a task and those after it are conditional on the whole log, until somebody else writes.
func TestConditionOnTheLog(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	eventstest.NewChain().Grow(t, n, 1)
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	assert.Equal(t, []string{ofTask + " 0", ofLog + " 2", ofLog + " 3"}, conditions(t, n, c.Task))

	intrude(t, n, eventstest.NewChain().Next(t, "intruder"))
	c.Grow(t, n, 4)
	assert.Equal(t, []string{ofTask + " 4", ofTask + " 6", ofLog + " 7", ofLog + " 8"}, conditions(t, n, c.Task)[3:])
}

// An append that does not follow the newest commit of its task is refused, whatever the appender knows about the log.
func TestStaleAppends(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record{
		"again": func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record {
			t.Helper()
			stale := c.Next(t, "stale")
			c.Grow(t, n, 2)
			return stale
		},
		"after somebody else": func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record {
			t.Helper()
			intrude(t, n, c.Next(t, "intruder"))
			return c.Next(t, "stale")
		},
		"after somebody else, and others": func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record {
			t.Helper()
			intrude(t, n, c.Next(t, "intruder"))
			eventstest.NewChain().Grow(t, n, 10)
			return c.Next(t, "stale")
		},
		"after somebody else, while nothing is predicted": func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record {
			t.Helper()
			intrude(t, n, eventstest.NewChain().Next(t, "intruder"))
			other := eventstest.NewChain()
			other.Grow(t, n, 1) // makes the appender notice it
			c.Grow(t, n, 1)
			intrude(t, n, c.Next(t, "intruder"))
			other.Grow(t, n, 10)
			return c.Next(t, "stale")
		},
		"archived": func(t *testing.T, n *bustest.Node, c *eventstest.Chain) events.Record {
			t.Helper()
			require.NoError(t, n.Archive(t.Context(), c.Task))
			return c.Next(t, "stale")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
			c := &eventstest.Chain{Task: events.NewTaskID(time.Now().Add(-24 * time.Hour))}
			c.Grow(t, n, 3)
			stale := prepare(t, n, c)
			before := eventstest.History(t, n, c.Task, 1)
			_, err := eventstest.Append(n, stale)
			assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
			assert.Equal(t, before, eventstest.History(t, n, c.Task, 1))
		})
	}
}

// An append that the log refuses and then its task has had no effect. That is a conflict at once, also if the commits of the task are gone:
// it is not sent until the server seems to be stuck.
func TestStaleAppendOfRemovedTask(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	c := eventstest.NewChain()
	c.Grow(t, n, 3)
	intrude(t, n, eventstest.NewChain().Next(t, "intruder"))
	js, err := jetstream.New(n.Conn.NATS())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORCH_EVENTS")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(bus.LiveSubject(c.Task))))
	_, err = eventstest.Append(n, c.Next(t, "stale"))
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
}

// The same with lost answers. No append is sent again and again until the server seems to be stuck.
func TestStaleAppendsWithLostAnswers(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	c := &eventstest.Chain{Task: events.NewTaskID(time.Now().Add(-24 * time.Hour))}
	c.Grow(t, n, 2)
	require.NoError(t, n.Archive(t.Context(), c.Task))
	stale := c.Next(t, "stale")
	ended := make(chan error, 500)
	for range cap(ended) {
		n.Append(stale, func(_ uint64, err error) { ended <- err })
		bus.LoseAnswers(n.Store)
	}
	for range cap(ended) {
		assert.Equal(t, fault.Conflict, fault.CodeOf(<-ended))
	}
	assert.Zero(t, bus.Restarts(n.Server))
}

// Nobody but the appender writes to the log of an embedded server.
func TestNobodyElseWrites(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	refused := make(chan error, 1)
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	defer nc.Close()
	c := eventstest.NewChain()
	require.NoError(t, nc.Publish(bus.LiveSubject(c.Task), c.Next(t, "operator").Data))
	require.ErrorIs(t, <-refused, nats.ErrPermissionViolation)
	assert.Empty(t, eventstest.History(t, n, c.Task, 1))
	_, err = bustest.ConnectPlain(n.Server.Addr(), nats.UserInfo("appender", ""))
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

// Appends of many tasks at a time succeed once each, though the log refuses others between them, and answers are lost.
func TestAppendsBesideRefusals(t *testing.T) {
	t.Parallel()
	const tasks, commits = 100, 30
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, bus.ServerConfig{Durability: level})
			known := eventstest.NewChain()
			again := known.Next(t, "again")
			known.Grow(t, n, 1)
			var growing, refusals sync.WaitGroup
			chains := make([]*eventstest.Chain, tasks)
			for i := range chains {
				chains[i] = eventstest.NewChain()
				growing.Go(func() { chains[i].Grow(t, n, commits) })
			}
			ended := make(chan struct{})
			refusals.Go(func() {
				for i := 0; !closed(ended); i++ {
					_, err := eventstest.Append(n, again)
					assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
					if i%50 == 0 {
						bus.LoseAnswers(n.Store)
					}
				}
			})
			growing.Wait()
			close(ended)
			refusals.Wait()
			for _, c := range chains {
				require.Len(t, eventstest.History(t, n, c.Task, 1), commits)
			}
			require.Len(t, eventstest.History(t, n, known.Task, 1), 1)
			assert.Zero(t, bus.Restarts(n.Server))
			last := chains[0]
			last.Grow(t, n, 3)
			onLog := 0
			for _, condition := range conditions(t, n, last.Task) {
				if strings.HasPrefix(condition, ofLog) {
					onLog++
				}
			}
			assert.Positive(t, onLog)
			report, err := n.Verify(t.Context(), nil)
			require.NoError(t, err)
			assert.Empty(t, report.Problems)
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Only the last message of a group asks for an acknowledgement.
func TestGroupsShareAnAcknowledgement(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{Durability: bus.Relaxed})
	eventstest.NewChain().Grow(t, n, 1)
	acks, err := n.Conn.NATS().SubscribeSync(bus.AcksOf(n.Store))
	require.NoError(t, err)
	require.NoError(t, n.Conn.NATS().Flush())
	const appends = 1000
	ended := make(chan error, appends)
	for range appends {
		n.Append(eventstest.NewChain().Next(t, "many"), func(_ uint64, err error) { ended <- err })
	}
	for range appends {
		require.NoError(t, <-ended)
	}
	require.NoError(t, n.Conn.NATS().Flush())
	count, _, err := acks.Pending()
	require.NoError(t, err)
	assert.Positive(t, count)
	assert.Less(t, count, appends/2)
}
