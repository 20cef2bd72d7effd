package bus

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
)

// diskSpace returns the free and the total bytes of the file system of dir.
func diskSpace(dir string) (free, total int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fault.Wrap(fault.Internal, err, "the free space of "+dir+" cannot be read")
	}
	size := uint64(st.Bsize)                                     //nolint:gosec // a block size is positive
	return int64(st.Bavail * size), int64(st.Blocks * size), nil //nolint:gosec // no disk has 2^63 bytes
}

// syncDisk syncs the file system of dir: files, directories and their entries.
func syncDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the directory "+dir+" cannot be opened")
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fault.Wrap(fault.Internal, err, "the file system of "+dir+" cannot be synced")
	}
	return nil
}
