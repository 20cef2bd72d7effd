package uptime

import "time"

var start = time.Now()

// sinceStart returns the time since this process started, without the time in which the machine slept.
func sinceStart() time.Duration { return time.Since(start) }
