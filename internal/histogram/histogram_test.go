package histogram_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/histogram"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	h := histogram.New()
	for _, d := range []time.Duration{0, 250 * time.Microsecond, 251 * time.Microsecond, 5 * time.Second, 6 * time.Second} {
		h.Observe(d)
	}
	c := h.Counts()
	assert.Equal(t, uint64(5), c.Count)
	assert.Equal(t, 11*time.Second+501*time.Microsecond, c.Sum)
	assert.Equal(t, histogram.Bucket{UpTo: 250 * time.Microsecond, Count: 2}, c.Buckets[0], "a bound belongs to its bucket")
	assert.Equal(t, histogram.Bucket{UpTo: 500 * time.Microsecond, Count: 3}, c.Buckets[1])
	assert.Equal(t, histogram.Bucket{UpTo: 5 * time.Second, Count: 4}, c.Buckets[len(c.Buckets)-1])
}

func TestConcurrentObservations(t *testing.T) {
	t.Parallel()
	h := histogram.New()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
			}
		})
	}
	group.Wait()
	c := h.Counts()
	assert.Equal(t, uint64(8000), c.Count)
	assert.Equal(t, 8*time.Second, c.Sum)
}

func TestNoHistogram(t *testing.T) {
	t.Parallel()
	var h *histogram.Histogram
	h.Observe(time.Second)
	assert.Nil(t, h.Counts())
}

func BenchmarkObserve(b *testing.B) {
	h := histogram.New()
	for b.Loop() {
		h.Observe(3 * time.Millisecond)
	}
}
