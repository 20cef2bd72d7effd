package proc

import (
	"maps"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// change is a metadata change that a system call requests.
type change struct {
	// at is the directory descriptor of a relative path, or the file itself when byDescriptor is true and path is
	// empty.
	at           int32
	path         string
	byDescriptor bool
	// follow is true when a symbolic link at path is followed.
	follow bool
	apply  func(fd int) error
}

// metadataCall decodes the arguments of a system call.
type metadataCall func(*caller, [6]uint64) (change, unix.Errno)

// metadataCalls returns the system calls that change metadata, by number.
func metadataCalls() map[uint32]metadataCall {
	calls := map[uint32]metadataCall{
		unix.SYS_FCHMOD: descriptorCall(0, chmod),
		unix.SYS_FCHMODAT: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return pathCall(c, descriptorArg(a[0]), a[1], true, chmod(a[2:]))
		},
		unix.SYS_FCHMODAT2: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return flaggedCall(c, a[0], a[1], a[3], chmod(a[2:]))
		},
		unix.SYS_FCHOWN: descriptorCall(0, chown),
		unix.SYS_FCHOWNAT: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return flaggedCall(c, a[0], a[1], a[4], chown(a[2:]))
		},
		unix.SYS_UTIMENSAT:    utimensat,
		unix.SYS_SETXATTR:     attributeCall(true, setAttribute),
		unix.SYS_LSETXATTR:    attributeCall(false, setAttribute),
		unix.SYS_FSETXATTR:    attributeOfDescriptor(setAttribute),
		unix.SYS_REMOVEXATTR:  attributeCall(true, removeAttribute),
		unix.SYS_LREMOVEXATTR: attributeCall(false, removeAttribute),
		unix.SYS_FREMOVEXATTR: attributeOfDescriptor(removeAttribute),
	}
	maps.Copy(calls, oldMetadataCalls())
	return calls
}

// descriptorArg returns the descriptor in an argument: its lower 32 bits.
func descriptorArg(argument uint64) int32 { return int32(uint32(argument)) } //nolint:gosec // only the lower 32 bits count

// descriptorCall decodes a system call on a descriptor, which is argument number first. The arguments for apply follow
// it.
func descriptorCall(first int, apply func([]uint64) func(int) error) metadataCall {
	return func(_ *caller, a [6]uint64) (change, unix.Errno) {
		return change{at: descriptorArg(a[first]), byDescriptor: true, follow: true, apply: apply(a[first+1:])}, 0
	}
}

// pathCall returns the change for the file at the path that is stored at address.
func pathCall(c *caller, dir int32, address uint64, follow bool, apply func(int) error) (change, unix.Errno) {
	path, errno := c.text(address, unix.PathMax)
	return change{at: dir, path: path, follow: follow, apply: apply}, errno
}

// flaggedCall is pathCall for system calls with AT_ flags. It returns EINVAL for unknown flags.
func flaggedCall(c *caller, dir, address, flags uint64, apply func(int) error) (change, unix.Errno) {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return change{}, unix.EINVAL
	}
	ch, errno := pathCall(c, descriptorArg(dir), address, flags&unix.AT_SYMLINK_NOFOLLOW == 0, apply)
	ch.byDescriptor = flags&unix.AT_EMPTY_PATH != 0
	return ch, errno
}

// ownDescriptor returns the path of an open file of the node, for system calls that do not accept its descriptor.
func ownDescriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func chmod(a []uint64) func(int) error {
	return func(fd int) error { return unix.Chmod(ownDescriptor(fd), uint32(a[0])) } //nolint:gosec // only the lower 32 bits count
}

func chown(a []uint64) func(int) error {
	return func(fd int) error {
		return unix.Fchownat(fd, "", int(descriptorArg(a[0])), int(descriptorArg(a[1])), unix.AT_EMPTY_PATH)
	}
}

// setTimes returns a function that sets the access and modification times. If times is nil, both become the current
// time.
func setTimes(times *[2]unix.Timespec) func(int) error {
	return func(fd int) error {
		now := [2]unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		if times == nil {
			times = &now
		}
		return unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH)
	}
}

func utimensat(c *caller, a [6]uint64) (change, unix.Errno) {
	var times *[2]unix.Timespec
	if a[2] != 0 {
		t, errno := c.numbers(a[2], 4)
		if errno != 0 {
			return change{}, errno
		}
		times = &[2]unix.Timespec{{Sec: t[0], Nsec: t[1]}, {Sec: t[2], Nsec: t[3]}}
	}
	if a[1] == 0 {
		return change{at: descriptorArg(a[0]), byDescriptor: true, follow: true, apply: setTimes(times)}, 0
	}
	return flaggedCall(c, a[0], a[1], a[3], setTimes(times))
}

// attribute is an extended attribute in a system call.
type attribute struct {
	name  string
	value []byte
	flags int
}

func setAttribute(c *caller, a []uint64) (func(int) error, unix.Errno) {
	const longest = 64 << 10
	at, errno := readAttribute(c, a[0])
	switch {
	case errno != 0:
		return nil, errno
	case a[2] > longest:
		return nil, unix.E2BIG
	case a[2] > 0:
		if at.value, errno = c.bytes(a[1], int(a[2])); errno != 0 { //nolint:gosec // at most longest
			return nil, errno
		}
		if uint64(len(at.value)) < a[2] {
			return nil, unix.EFAULT
		}
	}
	at.flags = int(uint32(a[3])) //nolint:gosec // only the lower 32 bits count
	return func(fd int) error { return unix.Setxattr(ownDescriptor(fd), at.name, at.value, at.flags) }, 0
}

func removeAttribute(c *caller, a []uint64) (func(int) error, unix.Errno) {
	at, errno := readAttribute(c, a[0])
	return func(fd int) error { return unix.Removexattr(ownDescriptor(fd), at.name) }, errno
}

// readAttribute reads the name of an attribute. It returns EOPNOTSUPP for a name that is neither user.* nor a POSIX
// ACL, because some other attributes grant privileges.
func readAttribute(c *caller, address uint64) (attribute, unix.Errno) {
	const longest = 256
	name, errno := c.text(address, longest)
	switch {
	case errno == unix.ENAMETOOLONG:
		errno = unix.ERANGE
	case errno == 0 && !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_"):
		errno = unix.EOPNOTSUPP
	}
	return attribute{name: name}, errno
}

// attributeCall decodes a system call that changes an extended attribute of the file at a path.
func attributeCall(follow bool, read func(*caller, []uint64) (func(int) error, unix.Errno)) metadataCall {
	return func(c *caller, a [6]uint64) (change, unix.Errno) {
		apply, errno := read(c, a[1:])
		if errno != 0 {
			return change{}, errno
		}
		return pathCall(c, unix.AT_FDCWD, a[0], follow, apply)
	}
}

// attributeOfDescriptor is attributeCall for a system call with a descriptor.
func attributeOfDescriptor(read func(*caller, []uint64) (func(int) error, unix.Errno)) metadataCall {
	return func(c *caller, a [6]uint64) (change, unix.Errno) {
		apply, errno := read(c, a[1:])
		return change{at: descriptorArg(a[0]), byDescriptor: true, follow: true, apply: apply}, errno
	}
}
