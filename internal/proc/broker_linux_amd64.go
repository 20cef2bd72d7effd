package proc

import "golang.org/x/sys/unix"

// oldMetadataCalls returns the metadata calls that newer architectures do not have.
func oldMetadataCalls() map[uint32]metadataCall {
	return map[uint32]metadataCall{
		unix.SYS_CHMOD: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return pathCall(c, unix.AT_FDCWD, a[0], true, chmod(a[1:]))
		},
		unix.SYS_CHOWN: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return pathCall(c, unix.AT_FDCWD, a[0], true, chown(a[1:]))
		},
		unix.SYS_LCHOWN: func(c *caller, a [6]uint64) (change, unix.Errno) {
			return pathCall(c, unix.AT_FDCWD, a[0], false, chown(a[1:]))
		},
		unix.SYS_UTIME: func(c *caller, a [6]uint64) (change, unix.Errno) {
			times, errno := seconds(c, a[1])
			if errno != 0 {
				return change{}, errno
			}
			return pathCall(c, unix.AT_FDCWD, a[0], true, setTimes(times))
		},
		unix.SYS_UTIMES: func(c *caller, a [6]uint64) (change, unix.Errno) {
			times, errno := microseconds(c, a[1])
			if errno != 0 {
				return change{}, errno
			}
			return pathCall(c, unix.AT_FDCWD, a[0], true, setTimes(times))
		},
		unix.SYS_FUTIMESAT: func(c *caller, a [6]uint64) (change, unix.Errno) {
			times, errno := microseconds(c, a[2])
			if errno != 0 {
				return change{}, errno
			}
			if a[1] == 0 {
				return change{at: descriptorArg(a[0]), byDescriptor: true, follow: true, apply: setTimes(times)}, 0
			}
			return pathCall(c, descriptorArg(a[0]), a[1], true, setTimes(times))
		},
	}
}

// seconds reads the two times of utime; nil stands for the current time.
func seconds(c *caller, address uint64) (*[2]unix.Timespec, unix.Errno) {
	if address == 0 {
		return nil, 0
	}
	t, errno := c.numbers(address, 2)
	if errno != 0 {
		return nil, errno
	}
	return &[2]unix.Timespec{{Sec: t[0]}, {Sec: t[1]}}, 0
}

// microseconds reads the two times of utimes; nil stands for the current time.
func microseconds(c *caller, address uint64) (*[2]unix.Timespec, unix.Errno) {
	if address == 0 {
		return nil, 0
	}
	const nanosPerMicro, microsPerSecond = 1_000, 1_000_000
	t, errno := c.numbers(address, 4)
	switch {
	case errno != 0:
		return nil, errno
	case t[1] < 0 || t[1] >= microsPerSecond || t[3] < 0 || t[3] >= microsPerSecond:
		return nil, unix.EINVAL
	}
	return &[2]unix.Timespec{{Sec: t[0], Nsec: t[1] * nanosPerMicro}, {Sec: t[2], Nsec: t[3] * nanosPerMicro}}, 0
}
