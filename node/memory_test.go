package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0: 100, 30 * mib: 100, 512 * mib: 100, 640 * mib: 80, 1024 * mib: 50, 1280 * mib: 40, 64 << 30: 40,
	} {
		assert.Equal(t, want, percentFor(live, 0, nodeHeadroom), live)
	}
	for rate, want := range map[uint64]int{0: 100, 30 * mib: 100, 36 * mib: 120, 60 * mib: 150, 4 << 30: 150} {
		assert.Equal(t, want, percentFor(30*mib, rate, nodeHeadroom), rate)
	}
	assert.Equal(t, 128, percentFor(400*mib, 4<<30, nodeHeadroom))
	assert.False(t, differs(100, 91))
	assert.True(t, differs(100, 89))
	assert.True(t, differs(40, 50))
}
