package bus_test

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
	"github.com/orch-dev/orch/rpc"
)

func openMessages(t *testing.T, n *bustest.Node, cfg messages.Config) *bus.Messages {
	t.Helper()
	m, err := n.OpenMessages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func TestMessages(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			messagestest.TestBroker(t, func(t *testing.T, cfg messages.Config) (messages.Broker[string], func() messages.Broker[string]) {
				t.Helper()
				n := bustest.NewNode(t, bus.ServerConfig{Durability: level})
				m := openMessages(t, n, cfg)
				return m, func() messages.Broker[string] {
					m.Close()
					n.Stop(t)
					n.Start(t)
					m = openMessages(t, n, cfg)
					return m
				}
			})
		})
	}
}

// Two nodes of one server have one inbox for everybody.
func TestMessagesOfTwoNodes(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	here, there := openMessages(t, n, messages.Config{}), openMessages(t, n, messages.Config{})
	_, err := there.Group(t.Context(), "agent:bob", messages.GroupChange{Join: "ops"})
	require.NoError(t, err)
	q := messages.Query{InOrder: true, Wait: time.Minute}
	for _, to := range []string{"agent:bob", "all"} {
		r, err := here.Send(t.Context(), "user:ada", messages.Draft{To: []string{to}, Payload: []byte(`"hello"`)})
		require.NoError(t, err)
		p, err := there.Inbox(t.Context(), "agent:bob", q)
		require.NoError(t, err)
		require.Len(t, p.Messages, 1)
		assert.Equal(t, r.ID, p.Messages[0].ID)
		q.After = p.Next
		_, err = there.Ack(t.Context(), "agent:bob", []string{r.ID})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			p, err := here.Inbox(t.Context(), "agent:bob", messages.Query{})
			return err == nil && len(p.Messages) == 0
		}, time.Minute, 10*time.Millisecond)
	}
	groups, err := here.Group(t.Context(), "agent:bob", messages.GroupChange{})
	require.NoError(t, err)
	assert.Equal(t, []string{"group:ops"}, groups.Groups)
}

// The server itself removes expired messages, so that the store does not grow while no node runs.
func TestMessagesExpireInTheStore(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	m := openMessages(t, n, messages.Config{})
	_, err := m.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, TTL: time.Second, Payload: []byte(`"short"`)})
	require.NoError(t, err)
	_, err = m.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`"long"`)})
	require.NoError(t, err)
	js, err := n.Conn.NATS().JetStream()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := js.StreamInfo("ORCH_MESSAGES")
		return err == nil && info.State.Msgs == 1
	}, time.Minute, 50*time.Millisecond)
	p, err := m.Inbox(t.Context(), "agent:bob", messages.Query{})
	require.NoError(t, err)
	require.Len(t, p.Messages, 1)
	assert.JSONEq(t, `"long"`, string(p.Messages[0].Payload))
	m.Close()
	n.Stop(t)
	n.Start(t)
	requireIntact(t, n)
}

// Damaged messages need no restore: the node starts with those before the damage, and reports it.
func TestDamagedMessagesAreDropped(t *testing.T) {
	t.Parallel()
	draft := messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`"a text that is damaged"`)}
	for name, c := range map[string]struct {
		file string
		at   func(size int) int
		left []int
	}{
		"a record":    {"*.blk", func(size int) int { return size / 2 }, []int{1, 2}},
		"the first":   {"*.blk", func(int) int { return 0 }, []int{0}},
		"the stream":  {"../meta.inf", func(int) int { return 5 }, []int{0}},
		"the newest":  {"*.blk", func(size int) int { return size - 3 }, []int{3}},
		"no checksum": {"*.blk", func(size int) int { return size - size/4 - 1 }, []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bustest.NewNode(t, bus.ServerConfig{})
			m := openMessages(t, n, messages.Config{})
			for range 4 {
				_, err := m.Send(t.Context(), "user:ada", draft)
				require.NoError(t, err)
			}
			m.Close()
			files := streamFiles(t, n, "ORCH_MESSAGES", c.file)
			n.Stop(t)
			data, err := os.ReadFile(files[0])
			require.NoError(t, err)
			data[c.at(len(data))] ^= 1
			require.NoError(t, os.WriteFile(files[0], data, 0o600))
			report, err := bus.Inspect(t.Context(), n.Config.DataDir)
			require.NoError(t, err)
			assert.Zero(t, report.Found)
			n.Start(t)
			m = openMessages(t, n, messages.Config{})
			p, err := m.Inbox(t.Context(), "agent:bob", messages.Query{})
			require.NoError(t, err)
			assert.Contains(t, c.left, len(p.Messages))
			if len(p.Messages) < 3 {
				require.NotEmpty(t, report.Mended)
				assert.Equal(t, "ORCH_MESSAGES", report.Mended[0].Stream)
			}
			r, err := m.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:eve"}, Payload: []byte(`1`)})
			require.NoError(t, err)
			m.Close()
			n.Stop(t)
			n.Start(t)
			m = openMessages(t, n, messages.Config{})
			p, err = m.Inbox(t.Context(), "agent:eve", messages.Query{})
			require.NoError(t, err)
			require.Len(t, p.Messages, 1)
			assert.Equal(t, r.ID, p.Messages[0].ID)
			requireIntact(t, n)
		})
	}
}

// A worker sends requests only in the name of its calls; faces send them with the operator's credential.
func TestMessagesOverTheBus(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	m := openMessages(t, n, messages.Config{})
	end, err := rpc.Serve(n.Conn, bus.MessagesPrefix, rpc.MessageMethods[string](m), rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = end.Close(t.Context()) })
	works, err := rpc.Serve(n.Conn, bus.WorkMessagesPrefix, rpc.MessageMethods[string](m), rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = works.Close(t.Context()) })

	for user, prefix := range map[string]string{bus.OperatorUser: bus.MessagesPrefix, bus.WorkerUser: bus.WorkMessagesPrefix} {
		c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir, User: user})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		broker := rpc.NewMessageClient[string](rpc.NewRemote(c), prefix)
		r, err := broker.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:" + user}, TTL: time.Hour, Payload: []byte(`{"n":1}`)})
		require.NoError(t, err)
		p, err := broker.Inbox(t.Context(), "agent:"+user, messages.Query{Wait: time.Minute})
		require.NoError(t, err)
		require.Len(t, p.Messages, 1)
		assert.Equal(t, r.ID, p.Messages[0].ID)
		assert.JSONEq(t, `{"n":1}`, string(p.Messages[0].Payload))
		a, err := broker.Ack(t.Context(), "agent:"+user, []string{r.ID})
		require.NoError(t, err)
		assert.Equal(t, []string{r.ID}, a.Acknowledged)
		g, err := broker.Group(t.Context(), "agent:"+user, messages.GroupChange{Join: "ops"})
		require.NoError(t, err)
		assert.Equal(t, []string{"group:ops"}, g.Groups)
		_, err = broker.Send(t.Context(), "user:ada", messages.Draft{To: []string{"nobody"}, Payload: []byte(`1`)})
		assert.Equal(t, "to", fault.From(err).Field)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	}
}

// BenchmarkMessages sends a message of 1 KiB, and acknowledges it, with 64 senders for each processor at the same time.
func BenchmarkMessages(b *testing.B) {
	levels(b, func(b *testing.B, n *bustest.Node) {
		b.Helper()
		m, err := n.OpenMessages(b.Context(), messages.Config{})
		require.NoError(b, err)
		b.Cleanup(m.Close)
		payload := []byte(`"` + strings.Repeat("x", 1<<10) + `"`)
		b.SetParallelism(64)
		var readers atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			who := "agent:r" + strconv.FormatInt(readers.Add(1), 10)
			for pb.Next() {
				r, err := m.Send(b.Context(), "user:ada", messages.Draft{To: []string{who}, Payload: payload})
				if err == nil {
					_, err = m.Ack(b.Context(), who, []string{r.ID})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
		perSecond(b)
	})
}
