// Package uptime tells for how long the machine has been running. Unlike the clock of package time it also counts the time
// in which the machine slept, so that a process can tell how long it stood still, for whatever reason.
package uptime

import "time"

// Now returns the time since the machine was started, or on some systems since this process was.
func Now() time.Duration { return now() }

// Steady returns a clock that begins with the time that wall shows and goes on as up does, so that whoever sets the clock of
// the machine meanwhile moves no deadline.
func Steady(wall func() time.Time, up func() time.Duration) func() time.Time {
	began, from := wall(), up()
	return func() time.Time { return began.Add(up() - from) }
}
