package bus

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserveFile is the file of the reserve in the data directory.
const reserveFile = "reserve"

// reserve is a file that sets some of the disk aside. When somebody else has filled the disk it is given up,
// so that there is room for what a node must write to start, to note how far the log went, and to remove
// what it has archived. It comes back when there is room again.
type reserve struct {
	path string
	size int64
	// unsupported is set where the file system cannot set space aside.
	unsupported bool
}

func newReserve(cfg *ServerConfig) *reserve {
	const most, share = 4 << 20, 4
	size := min(most, cfg.MinFree/share)
	return &reserve{path: filepath.Join(cfg.DataDir, reserveFile), size: size, unsupported: size <= 0}
}

// update gives the reserve up or takes it back, as the free space says.
func (r *reserve) update(cfg *ServerConfig) error {
	free, _, err := diskSpace(cfg.DataDir)
	switch there := exists(r.path); {
	case err != nil:
		return err
	case there && free < cfg.leastForMarks():
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
