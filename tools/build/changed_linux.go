package build

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt returns when a file was last changed, its name and rights included.
func changedAt(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Now()
}
