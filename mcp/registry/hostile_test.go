package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

func TestHostileServer(t *testing.T) { // S1-088
	t.Parallel()
	w := newWorld(t)
	w.define("bad", "hostile", map[string]any{"timeout": "3m"}) // a loaded machine takes long to send a huge message
	w.define("deaf", "hostile", map[string]any{"timeout": "5s"})
	w.define("good", "good")
	w.start()
	tools := w.offered("bad")
	for _, tool := range []string{"bomb", "talk", "odd\x1b[2J name"} {
		assert.NotContains(t, tools, tool)
	}
	assert.Len(t, tools, 8)
	assert.Contains(t, w.log.String(), "mcp_tool_refused server=bad tool=bomb")

	w.become("deaf", registry.Ready)
	_, err := w.try(t.Context(), "deaf", "deaf", "")
	require.True(t, fault.Has(err, fault.Timeout), "%v", err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = w.try(ctx, "deaf", "deaf", "")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = w.try(t.Context(), "bad", "huge", "")
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.Eventually(t, func() bool {
		return w.get("bad").LastError == "a message has more than 16 MiB"
	}, maxDebounce, time.Millisecond, "%v", w.get("bad").LastError)
	w.call("good", "pid")
	w.become("bad", registry.Ready)
}

// A server that does not read is given up in time, and does not delay others.
func TestHangingServerDelaysNobody(t *testing.T) { // S1-082
	t.Parallel()
	w := newWorld(t, func(c *registry.Config) { c.Handshake = 300 * time.Millisecond })
	w.define("good", "good")
	for _, name := range []string{"a", "b", "c"} {
		w.define(name, "silent")
	}
	begin := time.Now()
	w.start()
	assert.Less(t, time.Since(begin), maxDebounce)
	begin = time.Now()
	_, err := w.List(t.Context())
	require.NoError(t, err)
	assert.Less(t, time.Since(begin), 10*time.Second)
	w.become("good", registry.Ready)
	w.call("good", "pid")
	require.NoError(t, w.Close(t.Context(), maxDebounce))
	assert.Equal(t, registry.Offline, w.get("good").Status)
}
