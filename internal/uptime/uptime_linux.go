package uptime

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// reading is a reading of the uptime by a system call.
type reading struct {
	// wall is how far the wall clock was ahead of the monotonic clock. slept is how far the uptime was ahead of it.
	wall, slept time.Duration
}

var last atomic.Pointer[reading]

// tolerance is the difference between two values of reading.wall below which the machine cannot have slept between them.
const tolerance = time.Millisecond

// now costs a system call only if the machine may have slept since the last one: a sleep stops the monotonic clock but not the
// wall clock, and package time reads both without a system call. If somebody sets the wall clock, now only asks again.
func now() time.Duration {
	at := time.Now()
	ran := at.Sub(start)
	wall := at.Round(0).Sub(start.Round(0)) - ran
	if r := last.Load(); r != nil && (wall-r.wall).Abs() < tolerance {
		return ran + r.slept
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return ran
	}
	last.Store(&reading{wall: wall, slept: time.Duration(boot.Nano()) - ran})
	return time.Duration(boot.Nano())
}
