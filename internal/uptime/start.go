package uptime

import "time"

var start = time.Now()
