package bus

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserveFile is the file of the reserve in the data directory.
const reserveFile = "reserve"

// reserve is a file that reserves disk space. When something else has filled the disk, the file is removed. The node then has
// the space to start, to write the high-water mark, and to remove archived histories. The file is allocated again when there
// is enough space.
type reserve struct {
	path string
	size int64
	// unsupported is set if the file system cannot allocate space.
	unsupported bool
}

func newReserve(cfg *ServerConfig) *reserve {
	const maxSize, share = 4 << 20, 4
	size := min(maxSize, cfg.MinFree/share)
	return &reserve{path: filepath.Join(cfg.DataDir, reserveFile), size: size, unsupported: size <= 0}
}

// update removes the reserve or allocates it again, depending on the free space.
func (r *reserve) update(cfg *ServerConfig) error {
	free, _, err := diskSpace(cfg.DataDir)
	switch there := exists(r.path); {
	case err != nil:
		return err
	case there && free < cfg.minFreeForMarks():
		return removeFile(r.path)
	case !there && !r.unsupported && free >= cfg.MinFree+2*r.size:
		return r.allocate()
	}
	return nil
}

func (r *reserve) allocate() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return writeFault(r.path, err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, r.size)
	if err = errors.Join(err, f.Close()); err != nil {
		r.unsupported = true
		return errors.Join(writeFault(r.path, err), removeFile(r.path))
	}
	return nil
}
