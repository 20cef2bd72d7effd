package proc

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// broker changes modes, owners, times and attributes of files on behalf of a child that has no mount namespace. It does so
// only in the child's writable places. The kernel suspends the system call of the child and notifies the broker. The broker
// opens the file itself, checks the opened file, and changes it. The system call of the child is never executed, so
// that concurrent changes of its memory or of file names have no effect.
type broker struct {
	view   view
	places map[string]int // descriptors of the writable places
	// file delivers the kernel's notifications.
	file *os.File
}

// notification describes a waiting system call (struct seccomp_notif).
type notification struct {
	id          uint64
	thread      uint32
	flags       uint32
	number      uint32
	arch        uint32
	instruction uint64
	args        [6]uint64
}

// answer is the result of the system call (struct seccomp_notif_resp).
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// newBroker opens the writable places of a view.
func newBroker(v view) *broker {
	b := &broker{view: v, places: map[string]int{}}
	for _, p := range v {
		if p.kind.inherited() != writePlace {
			continue
		}
		if fd, err := openPlace(p.path); err == nil {
			b.places[p.path] = fd
		}
	}
	return b
}

// serve starts to answer notifications in the background. It stops when no process with the seccomp filter is left. serve
// takes ownership of listener.
func (b *broker) serve(listener int) error {
	if err := unix.SetNonblock(listener, true); err != nil {
		return errors.Join(os.NewSyscallError("fcntl", err), unix.Close(listener))
	}
	b.file = os.NewFile(uintptr(listener), "notifications")
	conn, err := b.file.SyscallConn()
	if err != nil {
		return errors.Join(err, b.file.Close())
	}
	go func() {
		defer b.close()
		for b.next(conn) {
			continue
		}
	}()
	return nil
}

func (b *broker) close() {
	if b.file != nil {
		_ = b.file.Close()
	}
	for _, fd := range b.places {
		_ = unix.Close(fd)
	}
}

// next waits for a system call and answers it. It returns false when no process with the filter is left.
func (b *broker) next(conn syscall.RawConn) (more bool) {
	var n notification
	ended, received := false, false
	err := conn.Read(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors fit in 32 bits
		if _, err := unix.Poll(ready, 0); err != nil {
			return !errors.Is(err, unix.EINTR)
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			ended = ready[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
			return ended
		}
		received = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) == nil //nolint:gosec // the system call needs a pointer
		return true
	})
	if err != nil || ended {
		return false
	}
	if !received {
		return true // the process was killed meanwhile
	}
	a := answer{id: n.id}
	if errno := b.change(n, func() bool { return b.waits(conn, n.id) }); errno != 0 {
		a.errno = -int32(errno) //nolint:gosec // error numbers are small
	}
	err = conn.Control(func(fd uintptr) { _ = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) }) //nolint:gosec // the system call needs a pointer
	return err == nil
}

// waits reports whether the system call still waits. The kernel does not reuse the id of its thread while it waits.
func (b *broker) waits(conn syscall.RawConn, id uint64) bool {
	const valid = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	waits := false
	err := conn.Control(func(fd uintptr) { waits = ioctl(fd, valid, unsafe.Pointer(&id)) == nil }) //nolint:gosec // the system call needs a pointer
	return err == nil && waits
}

func ioctl(fd uintptr, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// change makes the change that a system call requests. It returns the error number for the caller, or 0.
func (b *broker) change(n notification, waits func() bool) unix.Errno {
	call, known := metadataCalls()[n.number]
	if !known {
		return unix.EPERM
	}
	caller, err := openCaller(n.thread)
	if err != nil {
		return unix.EPERM
	}
	defer caller.close()
	if !waits() || !caller.sameUser() {
		return unix.EPERM
	}
	c, errno := call(caller, n.args)
	if errno != 0 {
		return errno
	}
	fd, errno := caller.open(c)
	if errno != 0 {
		return errno
	}
	defer func() { _ = unix.Close(fd) }()
	if !b.isWritable(fd) {
		return unix.EPERM
	}
	return errnoOf(c.apply(fd))
}

// errnoOf returns the error number in err: 0 for nil, EIO if err contains none.
func errnoOf(err error) unix.Errno {
	errno := unix.Errno(0)
	if err != nil && !errors.As(err, &errno) {
		return unix.EIO
	}
	return errno
}
