package bus_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/orch-dev/orch/rpc"
)

// fakeLease is a lease whose Held may be wrong.
type fakeLease struct {
	epoch uint64
	away  atomic.Bool
	lost  chan struct{}
	once  sync.Once
}

func newLease(epoch uint64) *fakeLease { return &fakeLease{epoch: epoch, lost: make(chan struct{})} }

func (l *fakeLease) Epoch() uint64         { return l.epoch }
func (l *fakeLease) Held() bool            { return !l.away.Load() }
func (l *fakeLease) Lost() <-chan struct{} { return l.lost }

func (l *fakeLease) Release(context.Context) error {
	l.end()
	return nil
}

// end has the lease lost.
func (l *fakeLease) end() {
	l.away.Store(true)
	l.once.Do(func() { close(l.lost) })
}

// openWith opens the store of a node once more, as the holder of a lease.
func openWith(t *testing.T, n *bustest.Node, l bus.Lease) *bus.Store {
	t.Helper()
	c, err := n.Server.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s, err := c.OpenStore(t.Context(), bus.StoreConfig{Lease: l})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	return s
}

// What a node appends that was active before reaches no log, even if it believes that it still is.
func TestOlderEpochsAreFenced(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	before, after := newLease(5), newLease(9)
	first := openWith(t, n, before)
	c := eventstest.NewChain()
	c.Grow(t, first, 2)
	second := openWith(t, n, after)
	assert.Equal(t, uint64(9), second.Epoch())

	other := eventstest.NewChain() // nobody else has written to it: no condition would refuse the append
	answer := make(chan error, 1)
	first.Append(other.Next(t, "zombie"), func(_ uint64, err error) { answer <- err })
	err := <-answer
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	assert.Empty(t, collected(t, second.Read(t.Context(), other.Task, 1)))

	first.Append(other.Next(t, "zombie"), func(_ uint64, err error) { answer <- err })
	err = <-answer
	assert.Equal(t, bus.Fenced, fault.From(err).Reason, "once it knows it does not even try: %v", err)

	c.Grow(t, second, 2)
	report, err := second.Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found, report.Problems)
	assert.Len(t, collected(t, second.Read(t.Context(), c.Task, 1)), 4)
}

// Archiving by a node that has lost its lease damages nothing that the next node has archived, at whatever step the lease is lost.
func TestALateNodeArchivesNothing(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string]int64{"before it copies": 0, "before it removes": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, bus.ServerConfig{})
			late := &lookedAt{fakeLease: newLease(5)}
			late.looks.Store(1000)
			first := openWith(t, n, late)
			c := eventstest.NewChain()
			c.Grow(t, first, 2)
			late.looks.Store(looks)
			err := first.Archive(t.Context(), c.Task)
			require.Equal(t, bus.Fenced, fault.From(err).Reason, "%v", err)
			second := openWith(t, n, newLease(9))
			c.Grow(t, second, 1) // it has got another commit
			assert.Len(t, collected(t, second.Read(t.Context(), c.Task, 1)), 3)
			require.NoError(t, second.Archive(t.Context(), c.Task))
			assert.Len(t, collected(t, second.Read(t.Context(), c.Task, 1)), 3)
		})
	}
}

// lookedAt is a lease that is lost when its holder has looked at it so often.
type lookedAt struct {
	*fakeLease

	looks atomic.Int64
}

func (l *lookedAt) Held() bool {
	if l.looks.Add(-1) < 0 {
		l.end()
	}
	return l.fakeLease.Held()
}

// An append waits while it is open whether the lease is still held, and is made when it is.
func TestAppendWaitsForLease(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	l := newLease(1)
	s := openWith(t, n, l)
	l.away.Store(true)
	answer := make(chan error, 1)
	c := eventstest.NewChain()
	s.Append(c.Next(t, "waits"), func(_ uint64, err error) { answer <- err })
	assert.Empty(t, collected(t, s.Read(t.Context(), c.Task, 1)))
	assert.Empty(t, answer)
	l.away.Store(false)
	require.NoError(t, <-answer)
	assert.Len(t, collected(t, s.Read(t.Context(), c.Task, 1)), 1)
}

// lateLease is lost as soon as its holder has looked at it.
type lateLease struct{ *fakeLease }

func (l lateLease) Held() bool {
	defer l.end()
	return l.fakeLease.Held()
}

// refusedWith opens the store of a node with a lease that is lost meanwhile.
func refusedWith(t *testing.T, n *bustest.Node, l bus.Lease) {
	t.Helper()
	c, err := n.Server.Connect(t.Context())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.OpenStore(t.Context(), bus.StoreConfig{Lease: l})
	assert.Equal(t, bus.Fenced, fault.From(err).Reason, "%v", err)
}

// A node whose lease is lost before it opens the log leaves the log to its successor.
func TestALateNodeTakesNothing(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	s := openWith(t, n, newLease(9))
	late := newLease(5)
	late.end()
	refusedWith(t, n, late)
	epoch, err := n.Conn.Epoch(t.Context())
	require.NoError(t, err)
	assert.Equal(t, uint64(9), epoch)
	eventstest.NewChain().Grow(t, s, 2)
}

// A node that loses its lease at that moment has opened the log: it appends nothing, and the active node, which notices at its next
// append, releases its lease and opens the log again.
func TestTheActiveNodeRecoversFromALateOne(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	active := newLease(9)
	s := openWith(t, n, active)
	refusedWith(t, n, lateLease{newLease(5)})
	epoch, err := n.Conn.Epoch(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(10), epoch)

	c := eventstest.NewChain()
	answer := make(chan error, 1)
	s.Append(c.Next(t, "nowhere"), func(_ uint64, err error) { answer <- err })
	err = <-answer
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	select {
	case <-active.Lost():
	default:
		t.Fatal("it keeps a lease with which it can append nothing")
	}
	again := openWith(t, n, newLease(10))
	assert.Equal(t, uint64(11), again.Epoch())
	eventstest.NewChain().Grow(t, again, 2)
}

// When the bucket of the leases is lost, epochs continue after that of the log.
func TestEpochsOnlyGrow(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	assert.Equal(t, uint64(70), openWith(t, n, newLease(70)).Epoch())
	assert.Equal(t, uint64(71), openWith(t, n, newLease(3)).Epoch())
	assert.Equal(t, uint64(80), openWith(t, n, newLease(80)).Epoch())
}

// A commit of an earlier epoch is reported.
func TestVerifyNamesOlderEpochs(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	s := openWith(t, n, newLease(7))
	c := eventstest.NewChain()
	c.Grow(t, s, 1)
	nc, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, n.Config.DataDir))
	require.NoError(t, err)
	defer nc.Close()
	own, err := nc.SubscribeSync("orch.in.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	later := eventstest.NewChain()
	later.Grow(t, s, 1)
	sent, err := own.NextMsg(time.Minute)
	require.NoError(t, err)
	assert.Equal(t, []string{"7"}, sent.Header["Orch-Epoch"])
	forged := &nats.Msg{Subject: strings.Replace(sent.Subject, string(later.Task), "TASK_01JD0000000000000000000009", 1), Header: sent.Header, Data: sent.Data}
	forged.Header["Orch-Epoch"] = []string{"6"}
	_, err = nc.RequestMsg(forged, time.Minute)
	require.NoError(t, err)
	report, err := s.Verify(t.Context(), nil)
	require.NoError(t, err)
	var named bool
	for _, p := range report.Problems {
		named = named || p.Task == events.TaskID("TASK_01JD0000000000000000000009") && strings.Contains(p.What, "epoch 6, after one of epoch 7")
	}
	assert.True(t, named, report.Problems)
}

// A node whose lease is lost answers nothing; one that waits for a renewal answers after it.
func TestOnlyTheHolderAnswers(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	l := newLease(1)
	c, err := bus.Dial(t.Context(), bus.DialConfig{
		URL: n.Server.Addr(), User: bus.OperatorUser, Password: bustest.Passwords(t, n.Config.DataDir)[bus.OperatorUser], Lease: l,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	end, err := rpc.Serve(c, "orch.held", map[string]rpc.Method{
		"ask": func(context.Context, []byte) ([]byte, error) { return []byte(`"held"`), nil },
	}, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	l.away.Store(true)
	time.AfterFunc(50*time.Millisecond, func() { l.away.Store(false) })
	var said string
	require.NoError(t, rpc.Call(t.Context(), n.Conn, "orch.held.ask", nil, &said))
	assert.Equal(t, "held", said)
	l.end()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = rpc.Call(ctx, n.Conn, "orch.held.ask", nil, nil)
	assert.True(t, fault.Has(err, fault.Timeout), "%v", err)
}

// A journal of the active node acknowledges an entry only while the lease is held.
func TestAppendLeased(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	l := newLease(1)
	j, err := openWith(t, n, l).OpenJournal(t.Context(), bus.HoldsJournal)
	require.NoError(t, err)
	at, err := j.AppendLeased(t.Context(), 0, []byte("a"))
	require.NoError(t, err)
	l.end()
	_, err = j.AppendLeased(t.Context(), at, []byte("b"))
	require.Equal(t, bus.Fenced, fault.From(err).Reason)
}
