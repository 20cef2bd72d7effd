package uptime

import (
	"time"

	"golang.org/x/sys/unix"
)

func now() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		return sinceStart()
	}
	return time.Duration(at.Nano())
}
