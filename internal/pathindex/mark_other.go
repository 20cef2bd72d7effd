//go:build !linux

package pathindex

import (
	"io/fs"
	"os"
	"time"
)

// mark identifies a state of a folder: two equal marks mean that its entries have not changed.
type mark struct{ at time.Time }

// markOf returns the mark of a folder. For a file or a link it returns fs.ErrNotExist.
func markOf(path string) (mark, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "lstat", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return mark{}, err
	}
	return mark{info.ModTime()}, nil
}

// changed returns the current time, so that every folder counts as changed: the modification time is not reliable,
// because a program can set it.
func (m mark) changed() time.Time { return time.Now() }
