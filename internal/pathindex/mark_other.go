//go:build !linux

package pathindex

import (
	"io/fs"
	"os"
	"time"
)

// mark identifies a state of a folder.
type mark struct{ at time.Time }

// markOf returns the mark of a folder. A link to a folder is not one.
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

// changed returns the current time, so that every folder counts as changed: on systems other than Linux a program can
// set the time.
func (m mark) changed() time.Time { return time.Now() }
