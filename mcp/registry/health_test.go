package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/registry"
)

func TestHealth(t *testing.T) { // S1-083
	t.Parallel()
	h := registry.NewHealth(nil)
	require.Equal(t, registry.Degraded, h.Status())
	h.Connected(true)
	require.Equal(t, registry.Ready, h.Status())
	assert.False(t, h.Silent())
	require.Equal(t, registry.Ready, h.Status(), "one ping may be lost")
	h.Answered()
	assert.False(t, h.Silent())
	assert.True(t, h.Silent())
	require.Equal(t, registry.Degraded, h.Status())
	h.Connected(true)
	require.Equal(t, registry.Ready, h.Status(), "it recovers")

	for range 3 { // it crashes after each handshake
		h.Failed()
		require.Equal(t, registry.Degraded, h.Status())
		h.Connected(true)
	}
	h.Failed()
	require.Equal(t, registry.Offline, h.Status())
	require.Equal(t, registry.BreakerOpen, h.Breaker())
	h.Failed()
	require.Equal(t, registry.Offline, h.Status(), "a probe fails")
	h.Connected(true)
	require.Equal(t, registry.Ready, h.Status(), "a probe works")
	require.Equal(t, registry.BreakerHalfOpen, h.Breaker())
	h.Failed()
	require.Equal(t, registry.BreakerOpen, h.Breaker())
	h.Connected(true)
	h.Answered()
	require.Equal(t, registry.BreakerClosed, h.Breaker())
	h.Connected(false)
	require.Equal(t, registry.Degraded, h.Status())
}

func TestDelays(t *testing.T) { // S1-085, A-70
	t.Parallel()
	const middle = 0.5
	h := registry.NewHealth(&registry.RetryPolicy{MaxAttempts: 10})
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		h.Failed()
		want := time.Duration(seconds) * time.Second
		assert.Equal(t, want, h.Delay(middle))
		assert.InDelta(t, 0.8*float64(want), float64(h.Delay(0)), float64(time.Millisecond))
		assert.Less(t, h.Delay(0.999), want*12/10)
	}
	h = registry.NewHealth(&registry.RetryPolicy{Backoff: "fixed"})
	for range 2 {
		h.Failed()
		assert.Equal(t, time.Second, h.Delay(middle))
	}
	h.Failed()
	assert.Equal(t, registry.BreakerOpen, h.Breaker())
	assert.Equal(t, 15*time.Second, h.Delay(middle))
}

// A server that waits for a login is retried slowly, and does not count as failed.
func TestHealthOfAServerThatDemandsALogin(t *testing.T) {
	t.Parallel()
	h := registry.NewHealth(nil)
	for range 10 {
		h.Barred()
	}
	assert.Equal(t, registry.Degraded, h.Status())
	assert.Equal(t, registry.BreakerClosed, h.Breaker())
	assert.Equal(t, 30*time.Second, h.Delay(0))
	h.Failed()
	assert.Less(t, h.Delay(0), 2*time.Second)
	h.Barred()
	h.Connected(true)
	assert.Equal(t, registry.Ready, h.Status())
	assert.Less(t, h.Delay(0), 2*time.Second)
}
