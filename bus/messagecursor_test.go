package bus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/messages"
)

// A cursor is valid after a restart although the newest messages have expired: messages before it are not delivered again.
func TestCursorOutlivesExpiredMessages(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	m := openMessages(t, n, messages.Config{})
	_, err := m.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`"waits"`)})
	require.NoError(t, err)
	var p messages.Page
	for len(p.Messages) < 2 { // on a slow machine a brief one may expire before it is seen
		_, err = m.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, TTL: time.Second, Payload: []byte(`"brief"`)})
		require.NoError(t, err)
		p, err = m.Inbox(t.Context(), "agent:bob", messages.Query{InOrder: true})
		require.NoError(t, err)
	}
	js, err := n.Conn.NATS().JetStream()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := js.StreamInfo("ORCH_MESSAGES")
		return err == nil && info.State.Msgs == 1
	}, time.Minute, 50*time.Millisecond)
	m.Close()
	n.Stop(t)
	n.Start(t)
	m = openMessages(t, n, messages.Config{})
	again, err := m.Inbox(t.Context(), "agent:bob", messages.Query{After: p.Next})
	require.NoError(t, err)
	assert.Empty(t, again.Messages)
	assert.Equal(t, p.Next, again.Next)
}
