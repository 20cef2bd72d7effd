// Package uptime returns how long the machine has been running. Unlike the monotonic clock of package time it includes
// the time in which the machine slept, so that a process can measure how long it was suspended, for whatever reason.
package uptime

import (
	"sync/atomic"
	"time"
)

// Now returns the time since the machine was started, or on some systems since this process started.
func Now() time.Duration { return now() }

// checkInterval is how often a steady clock reads the uptime.
const checkInterval = time.Second

// Steady returns a clock that starts at wall() and advances with up(), so that setting the clock of the machine does
// not move deadlines. It reads up only once a second, because that is several times as expensive as the clock of the
// process. It notices that the machine slept within a second after the end of the sleep.
func Steady(wall func() time.Time, up func() time.Duration) func() time.Time {
	began, from, awake := wall(), up(), time.Now()
	var slept, looked atomic.Int64
	return func() time.Time {
		ran := time.Since(awake)
		if last := looked.Load(); ran-time.Duration(last) >= checkInterval && looked.CompareAndSwap(last, int64(ran)) {
			passed := up() - from
			if s := passed - time.Since(awake); s > time.Duration(slept.Load()) {
				slept.Store(int64(s))
			}
		}
		return began.Add(ran + time.Duration(slept.Load()))
	}
}
