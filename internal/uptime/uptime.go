// Package uptime tells for how long the machine has been running. Unlike the clock of package time it also counts the time
// in which the machine slept, so that a process can tell how long it stood still, for whatever reason.
package uptime

import (
	"sync/atomic"
	"time"
)

// Now returns the time since the machine was started, or on some systems since this process was.
func Now() time.Duration { return now() }

// lookEvery is how often a steady clock asks for the time since the machine was started.
const lookEvery = time.Second

// Steady returns a clock that begins with the time that wall shows and goes on as up does, so that whoever sets the clock of
// the machine meanwhile moves no deadline. It asks up once a second, which costs several times as much as the clock of the
// process: it notices a sleep of the machine within a second of its end.
func Steady(wall func() time.Time, up func() time.Duration) func() time.Time {
	began, from, awake := wall(), up(), time.Now()
	var slept, looked atomic.Int64
	return func() time.Time {
		ran := time.Since(awake)
		if last := looked.Load(); ran-time.Duration(last) >= lookEvery && looked.CompareAndSwap(last, int64(ran)) {
			passed := up() - from
			if s := passed - time.Since(awake); s > time.Duration(slept.Load()) {
				slept.Store(int64(s))
			}
		}
		return began.Add(ran + time.Duration(slept.Load()))
	}
}
