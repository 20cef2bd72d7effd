package events_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// TestAmountsDoNotOverflow: what a provider says it has used is never a gain for a budget, however much it is.
func TestAmountsDoNotOverflow(t *testing.T) {
	t.Parallel()
	price := events.Price{Input: 1000, CacheRead: 1, CacheWrite: 1, Output: 10_000}
	huge := events.Usage{Input: 1 << 62, CacheRead: math.MaxInt64, Output: math.MaxInt64}

	assert.Equal(t, int64(1_050), price.Of(events.Usage{Input: 1, CacheRead: 50}))
	assert.Equal(t, int64(math.MaxInt64), price.Of(huge))
	assert.Equal(t, int64(math.MaxInt64), price.Highest(1<<62, 1))
	assert.Equal(t, int64(math.MaxInt64), huge.Total())

	spent := (&events.Answered{NanoUSD: price.Of(huge), Usage: huge}).Cost()
	assert.Equal(t, events.Spent{NanoUSD: math.MaxInt64, Tokens: math.MaxInt64}, spent.Plus(spent))
	assert.Equal(t, int64(math.MinInt64), events.Add(math.MinInt64, -1))
	assert.Equal(t, int64(-1), events.Add(math.MaxInt64, math.MinInt64))
}
