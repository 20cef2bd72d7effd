// Package histogram counts durations in buckets, without locks.
package histogram

import (
	"sync/atomic"
	"time"
)

// bounds returns the upper bounds of the buckets; a last bucket has none. They suit the time that a disk needs to sync.
func bounds() []time.Duration {
	const us, ms, s = time.Microsecond, time.Millisecond, time.Second
	return []time.Duration{250 * us, 500 * us, ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, s, 5 * s}
}

// Histogram counts durations. It is safe for concurrent use. All methods of a nil histogram do nothing.
type Histogram struct {
	bounds []time.Duration
	// counts has one more entry than bounds.
	counts []atomic.Uint64
	sum    atomic.Int64
}

// New returns an empty histogram.
func New() *Histogram { return Of(bounds()...) }

// Of returns an empty histogram with the ascending upper bounds of its buckets.
func Of(bounds ...time.Duration) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	if h == nil {
		return
	}
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Bucket is the number of durations up to a bound.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Counts is the content of a histogram at a time.
type Counts struct {
	// Buckets have ascending bounds. Each contains those before.
	Buckets []Bucket
	// Count is the number of all durations, Sum their sum.
	Count uint64
	Sum   time.Duration
}

// Counts returns what was counted; nil for a nil histogram.
func (h *Histogram) Counts() *Counts {
	if h == nil {
		return nil
	}
	c := &Counts{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		c.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			c.Buckets = append(c.Buckets, Bucket{h.bounds[i], c.Count})
		}
	}
	return c
}
