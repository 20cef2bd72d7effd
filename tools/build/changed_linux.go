package build

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt returns the change time of a file, which also covers its name and permissions.
func changedAt(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Now()
}
