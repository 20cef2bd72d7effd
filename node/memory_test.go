package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0: 100, 30 * mib: 100, 256 * mib: 100, 320 * mib: 80, 512 * mib: 50, 640 * mib: 40, 64 << 30: 40,
	} {
		assert.Equal(t, want, percentFor(live, 0, nodeHeadroom), live)
	}
	for rate, want := range map[uint64]int{0: 100, 60 * mib: 100, 120 * mib: 200, 300 * mib: 500, 4 << 30: 853} {
		assert.Equal(t, want, percentFor(30*mib, rate, nodeHeadroom), rate)
	}
	assert.False(t, differs(100, 91))
	assert.True(t, differs(100, 89))
	assert.True(t, differs(40, 50))
}
