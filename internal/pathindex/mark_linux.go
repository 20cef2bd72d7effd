package pathindex

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// mark identifies a state of a folder: two equal marks mean that its entries have not changed.
type mark struct {
	device, inode uint64
	seconds, nano int64
}

// markOf returns the mark of a folder. For a file or a link it returns fs.ErrNotExist.
func markOf(path string) (mark, error) {
	var st syscall.Stat_t
	for {
		err := syscall.Lstat(path, &st)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			err = fs.ErrNotExist
		}
		if err != nil {
			return mark{}, &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		return mark{st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec}, nil
	}
}

// changed returns the time of the folder's last change.
func (m mark) changed() time.Time { return time.Unix(m.seconds, m.nano) }
