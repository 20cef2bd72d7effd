// Package uptime measures how long the machine has been running. Unlike the monotonic clock of package time it includes
// the time in which the machine slept. A process can thus measure how long it was suspended, for whatever reason.
package uptime

import (
	"sync/atomic"
	"time"
)

// Now returns the time since the machine was started, or on some systems since this process started.
func Now() time.Duration { return now() }

// checkInterval is the minimum time between two readings of the uptime by a steady clock.
const checkInterval = time.Second

// Steady returns a clock that starts at wall() and advances with up(), so that setting the clock of the machine does
// not move deadlines. It calls up at most once per checkInterval, because up is several times as expensive as
// time.Since. So the time of a sleep is added up to checkInterval after its end.
func Steady(wall func() time.Time, up func() time.Duration) func() time.Time {
	began, from, awake := wall(), up(), time.Now()
	var slept, lastRead atomic.Int64
	return func() time.Time {
		ran := time.Since(awake)
		if last := lastRead.Load(); ran-time.Duration(last) >= checkInterval && lastRead.CompareAndSwap(last, int64(ran)) {
			passed := up() - from
			if s := passed - time.Since(awake); s > time.Duration(slept.Load()) {
				slept.Store(int64(s))
			}
		}
		return began.Add(ran + time.Duration(slept.Load()))
	}
}
