package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
)

// Node and workers may publish notifications; only operators hear them.
func TestNotify(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	task := eventstest.NewChain().Task
	sub, err := n.Conn.NATS().SubscribeSync(bus.NoticePrefix + ".*")
	require.NoError(t, err)
	require.NoError(t, n.Conn.NATS().Flush())
	worker := bustest.Dial(t, n, bus.WorkerUser)
	for _, c := range []*bus.Conn{n.Conn, worker} {
		require.NoError(t, c.Notify(t.Context(), task, []byte("{}")))
		m, err := sub.NextMsgWithContext(t.Context())
		require.NoError(t, err)
		assert.Equal(t, bus.NoticePrefix+"."+string(task), m.Subject)
		assert.Equal(t, "{}", string(m.Data))
	}
	refused := make(chan error, 1)
	nc, err := bustest.ConnectPlain(n.Server.Addr(), nats.UserInfo(bus.WorkerUser, bustest.Passwords(t, n.Config.DataDir)[bus.WorkerUser]),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.SubscribeSync(bus.NoticePrefix + ".>")
	require.NoError(t, err)
	require.ErrorIs(t, <-refused, nats.ErrPermissionViolation)
	worker.Close()
	require.ErrorIs(t, worker.Notify(t.Context(), task, nil), &fault.Error{Code: fault.Unavailable})
}
