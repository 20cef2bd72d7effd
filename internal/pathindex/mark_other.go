//go:build !linux

package pathindex

import (
	"io/fs"
	"os"
	"time"
)

// mark tells two states of a folder apart.
type mark struct{ at time.Time }

// markOf returns the mark of a folder. A link is none.
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

// changed makes every folder one that may have changed: elsewhere than on Linux a program can set the time.
func (m mark) changed() time.Time { return time.Now() }
