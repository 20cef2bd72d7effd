package notify_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/notify"
)

// Notifications of the node are sent to its channels, and an error names the failed ones.
func TestSender(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var got []notify.Notice
	cfg := notify.Config{
		Channels: map[string]string{"down": "http://127.0.0.1:2/hunter2"},
		Publish:  func(_ context.Context, n notify.Notice) error { got = append(got, n); return nil },
	}
	n := notify.Notice{Task: b.env.Task, Key: "k", Priority: "high", Subject: "s", Message: "m"}
	s, err := notify.NewSender(cfg, "nats", "log")
	require.NoError(t, err)
	require.NoError(t, s.Send(t.Context(), b.env, n))
	assert.Equal(t, []notify.Notice{n}, got)
	assert.Contains(t, b.text.String(), "level=WARN msg=notification")

	s, err = notify.NewSender(cfg, "nats", "down")
	require.NoError(t, err)
	err = s.Send(t.Context(), b.env, n)
	require.ErrorContains(t, err, "not accepted by down (")
	assert.NotContains(t, err.Error(), "hunter2")
	assert.Len(t, got, 2, "one that is down keeps no other from it")

	_, err = notify.NewSender(cfg, "fax")
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}
