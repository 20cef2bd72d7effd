package uptime

import "time"

var start = time.Now()

// sinceStart is the time since this process was started, without that in which the machine slept.
func sinceStart() time.Duration { return time.Since(start) }
