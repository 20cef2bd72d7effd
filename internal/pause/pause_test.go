package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pause"
)

func TestForWaits(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	require.NoError(t, pause.For(t.Context(), 20*time.Millisecond))
	assert.GreaterOrEqual(t, time.Since(begun), 20*time.Millisecond)
}

func TestForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, pause.For(ctx, 24*time.Hour), context.Canceled)
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const first, longest = 20 * time.Millisecond, 2 * time.Second
	for failures, whole := range map[int]time.Duration{
		0: first, 1: 2 * first, 3: 8 * first, 6: 64 * first, 7: longest, 8: longest, 1 << 40: longest,
	} {
		for range 50 {
			d := pause.Backoff(first, longest, failures)
			assert.GreaterOrEqual(t, d, whole/2, failures)
			assert.LessOrEqual(t, d, whole, failures)
		}
	}
}

// A job that yields works for a small part of the time.
func TestShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s pause.Share
		began, worked := time.Now(), time.Duration(0)
		for range 100 {
			require.NoError(t, s.Yield(t.Context()))
			worked += time.Millisecond
			require.NoError(t, pause.For(t.Context(), time.Millisecond))
		}
		assert.Less(t, worked, time.Since(began)/10)
	})
}

func TestShareEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var s pause.Share
	assert.ErrorIs(t, s.Yield(ctx), context.Canceled)
}
