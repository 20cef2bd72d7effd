package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/rpc"
)

// flakyBroker is unavailable for a while.
type flakyBroker struct {
	messages.Broker[string]

	silent int
}

func (m *flakyBroker) Send(context.Context, string, messages.Draft) (messages.Receipt, error) {
	if m.silent--; m.silent >= 0 {
		return messages.Receipt{}, fault.New(fault.Unavailable, "not now")
	}
	return messages.Receipt{ID: "MSG_1"}, nil
}

func (m *flakyBroker) Ack(context.Context, string, []string) (messages.Acked, error) {
	m.silent--
	return messages.Acked{}, fault.New(fault.Conflict, "too late")
}

func TestRetryingBroker(t *testing.T) {
	t.Parallel()
	m := &flakyBroker{silent: 2}
	broker := rpc.RetryingBroker[string](m)
	r, err := broker.Send(t.Context(), "user:ada", messages.Draft{Key: "k"})
	require.NoError(t, err)
	assert.Equal(t, "MSG_1", r.ID)
	assert.Equal(t, -1, m.silent)
	_, err = broker.Ack(t.Context(), "user:ada", nil)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "only silence is worth another try")
	assert.Equal(t, -2, m.silent)
	m.silent = 1
	_, err = broker.Send(t.Context(), "user:ada", messages.Draft{})
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err), "without a key it could be sent twice")
	m.silent = 1000
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = broker.Send(ctx, "user:ada", messages.Draft{Key: "k"})
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
}
