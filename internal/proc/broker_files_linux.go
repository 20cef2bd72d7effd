package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// caller gives access to the thread that waits in a brokered system call.
type caller struct {
	dir    int // descriptor of its folder in /proc, which stays bound to this thread
	memory int // descriptor of its memory
}

func openCaller(thread uint32) (*caller, error) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(int(thread)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	memory, err := unix.Openat(dir, "mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(dir)
		return nil, err
	}
	return &caller{dir, memory}, nil
}

func (c *caller) close() { closeAll([]int{c.dir, c.memory}) }

// sameUser reports whether the thread runs as the user of the node. Root may have switched to another user with fewer
// privileges than the broker.
func (c *caller) sameUser() bool {
	fd, err := unix.Openat(c.dir, "status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	status := make([]byte, 8<<10)
	n, err := unix.Read(fd, status)
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status[:n], []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	users := strings.Fields(string(line))
	const fileSystemUID = 3
	return len(users) > fileSystemUID && users[fileSystemUID] == strconv.Itoa(os.Geteuid())
}

// bytes reads up to size bytes of memory.
func (c *caller) bytes(address uint64, size int) ([]byte, unix.Errno) {
	data := make([]byte, size)
	n, err := unix.Pread(c.memory, data, int64(address)) //nolint:gosec // user-space addresses fit in 63 bits
	if err != nil || n <= 0 {
		return nil, unix.EFAULT
	}
	return data[:n], 0
}

// text reads a NUL-terminated string of less than limit bytes.
func (c *caller) text(address uint64, limit int) (string, unix.Errno) {
	data, errno := c.bytes(address, limit)
	if errno != 0 {
		return "", errno
	}
	text, _, ended := bytes.Cut(data, []byte{0})
	switch {
	case ended:
		return string(text), 0
	case len(data) < limit:
		return "", unix.EFAULT
	default:
		return "", unix.ENAMETOOLONG
	}
}

// numbers reads count numbers of 64 bits.
func (c *caller) numbers(address uint64, count int) ([]int64, unix.Errno) {
	const size = 8
	data, errno := c.bytes(address, size*count)
	if errno == 0 && len(data) < size*count {
		errno = unix.EFAULT
	}
	if errno != 0 {
		return nil, errno
	}
	numbers := make([]int64, count)
	for i := range numbers {
		numbers[i] = int64(binary.NativeEndian.Uint64(data[size*i:])) //nolint:gosec // the kernel reads it as signed, too
	}
	return numbers, 0
}

// open returns an O_PATH descriptor of the file of a change. It resolves the path as the kernel would for the caller.
func (c *caller) open(ch change) (int, unix.Errno) {
	number, byNumber := descriptorPath(ch.path)
	switch {
	case byNumber && ch.follow:
		return c.descriptor(number)
	case ch.path == "" && ch.byDescriptor:
		return c.descriptor(ch.at)
	case ch.path == "":
		return -1, unix.ENOENT
	}
	base := unix.AT_FDCWD
	if !strings.HasPrefix(ch.path, "/") {
		var errno unix.Errno
		if base, errno = c.descriptor(ch.at); errno != 0 {
			return -1, errno
		}
		defer func() { _ = unix.Close(base) }()
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if !ch.follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat2(base, ch.path, &how)
	return fd, errnoOf(err)
}

// descriptor returns an O_PATH descriptor of an open file of the caller, or of its working directory for AT_FDCWD.
func (c *caller) descriptor(number int32) (int, unix.Errno) {
	name := "fd/" + strconv.Itoa(int(number))
	if number == unix.AT_FDCWD {
		name = "cwd"
	}
	fd, err := unix.Openat(c.dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, unix.EBADF
	}
	return fd, errnoOf(err)
}

// descriptorPath returns the descriptor in a path that denotes an open file of the caller.
func descriptorPath(path string) (int32, bool) {
	for _, prefix := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		if text, ok := strings.CutPrefix(path, prefix); ok {
			n, err := strconv.ParseUint(text, 10, 31)
			return int32(n), err == nil
		}
	}
	return 0, false
}

// isWritable reports whether an open file is in a writable place now. The kernel's name of the file is only a hint:
// opening that name below the place, without following links, must give the same file.
func (b *broker) isWritable(fd int) bool {
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return false
	}
	if stat.Nlink == 0 && stat.Mode&unix.S_IFMT == unix.S_IFREG {
		return true // it has no name, so no other process can open it
	}
	const tries = 5 // it may be moved concurrently
	for range tries {
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return false
		}
		if b.isWritableFile(path, stat) {
			return true
		}
	}
	return false
}

// isWritableFile reports whether path is in a writable place and denotes the file of stat.
func (b *broker) isWritableFile(path string, stat unix.Stat_t) bool {
	above := place{kind: readPlace}
	for _, p := range b.view {
		if within(path, p.path) {
			above = p
		}
	}
	dir, ok := b.places[above.path]
	if above.kind.inherited() != writePlace || !ok {
		return false
	}
	var found unix.Stat_t
	rel := strings.TrimPrefix(strings.TrimPrefix(path, above.path), "/")
	if rel == "" {
		return unix.Fstat(dir, &found) == nil && found.Dev == stat.Dev && found.Ino == stat.Ino
	}
	fd, err := unix.Openat2(dir, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Fstat(fd, &found) == nil && found.Dev == stat.Dev && found.Ino == stat.Ino
}
