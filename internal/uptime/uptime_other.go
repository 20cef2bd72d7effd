//go:build !linux

package uptime

import "time"

func now() time.Duration { return time.Since(start) }
