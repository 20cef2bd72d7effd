package proc

import (
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The offsets of a system call's data in the input of the filter. Only the lower half of an argument is checked. The
// kernel also ignores the upper half of these arguments.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32 is the bit that marks system calls of the x32 ABI of amd64. That ABI is not needed.
const x32 = 0x40000000

// auditArch returns the number of the architecture in the filter, or 0 if it is unknown.
func auditArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	default:
		return 0
	}
}

// refuse returns the instruction that refuses a call with an error number.
func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)} //nolint:gosec // error numbers are small
}

func permit() bpf.Instruction { return bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW} }

func argument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArgs + 8*n, Size: 4} }

// onCall applies body to one system call. If body does not return, the filter continues after it.
func onCall(number uint32, body ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(body))}, //nolint:gosec // fewer than 256
	}, body...)
}

// refuseUnlessZero refuses a call if an argument is not 0. Any other value denotes another process.
func refuseUnlessZero(arg uint32) []bpf.Instruction {
	return []bpf.Instruction{argument(arg), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, refuse(unix.EPERM)}
}

// refuseIfSet refuses a call if an argument contains a flag.
func refuseIfSet(arg, flag uint32) []bpf.Instruction {
	return []bpf.Instruction{argument(arg), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: flag, SkipTrue: 1}, refuse(unix.EPERM)}
}

// filter returns the BPF program that the kernel runs for every system call of a child. internet allows Internet
// sockets. metadata sets how changes of file modes, owners, times and attributes are treated.
func filter(internet bool, metadata metadataPolicy) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch(), SkipTrue: 1},
		refuse(unix.EPERM),
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: x32, SkipTrue: 1},
		refuse(unix.ENOSYS),
	}
	program = append(program, sockets(internet)...)
	program = append(program, metadataFilter(metadata)...)
	program = append(program, ipcFilter(metadata == metadataFree)...)
	for _, number := range forbidden() {
		program = append(program, onCall(number, refuse(unix.EPERM))...)
	}
	// Programs have a fallback for these two, because old kernels lack them. The filter cannot see the operations of an
	// io_uring, nor the flags of clone3.
	program = append(program, onCall(unix.SYS_IO_URING_SETUP, refuse(unix.ENOSYS))...)
	program = append(program, onCall(unix.SYS_CLONE3, refuse(unix.ENOSYS))...)
	// A user namespace would restore the dropped privileges.
	program = append(program, onCall(unix.SYS_CLONE, refuseIfSet(0, unix.CLONE_NEWUSER)...)...)
	program = append(program, onCall(unix.SYS_UNSHARE, refuseIfSet(0, unix.CLONE_NEWUSER)...)...)
	// A child must not change the limits and priorities of other processes, including the node.
	program = append(program, onCall(unix.SYS_PRLIMIT64, refuseUnlessZero(0)...)...)
	program = append(program, onCall(unix.SYS_SETPRIORITY, append(refuseUnlessZero(0), refuseUnlessZero(1)...)...)...)
	program = append(program, onCall(unix.SYS_IOPRIO_SET, refuseUnlessZero(1)...)...)
	for _, number := range []uint32{unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		program = append(program, onCall(number, refuseUnlessZero(0)...)...)
	}
	return append(program, permit())
}

// sockets refuses all sockets except netlink sockets and, if internet is true, Internet sockets. Unix sockets are
// refused, because they may give access to the whole machine (Docker, D-Bus, ssh agents), and Landlock cannot restrict
// them. Socket pairs are allowed, except datagram pairs, which can be connected to another address.
func sockets(internet bool) []bpf.Instruction {
	families := []uint32{unix.AF_NETLINK}
	if internet {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	body := []bpf.Instruction{argument(0)}
	for i, family := range families {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipTrue: uint8(len(families) - i)}) //nolint:gosec // fewer than 256
	}
	body = append(body, refuse(unix.EPERM))
	const kind = 0xf // mask of the socket type without flags
	return append(onCall(unix.SYS_SOCKET, body...), onCall(unix.SYS_SOCKETPAIR,
		argument(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: kind},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
		refuse(unix.EPERM),
	)...)
}

// forbidden returns system calls that no tool needs: they change the machine, read its memory or keys, or open files
// without access to their folders.
func forbidden() []uint32 {
	return []uint32{
		unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
		unix.SYS_FINIT_MODULE, unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_MOUNT,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT, unix.SYS_QUOTACTL, unix.SYS_REBOOT,
		unix.SYS_REQUEST_KEY, unix.SYS_SETDOMAINNAME, unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF,
		unix.SYS_SWAPON, unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_USERFAULTFD, unix.SYS_QUOTACTL_FD, unix.SYS_OPEN_TREE,
		unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR,
	}
}

// assemble converts a filter to the format of the kernel.
func assemble(program []bpf.Instruction) ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return code, nil
}

// enterFilter installs the filter for the calling thread and its children, permanently. With
// SECCOMP_FILTER_FLAG_NEW_LISTENER it returns the descriptor for notifications about suspended system calls.
func enterFilter(code []unix.SockFilter, flags uintptr) (int, error) {
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}                                                    //nolint:gosec // a few hundred instructions
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the system call needs a pointer
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// seccompWorks reports whether the kernel can filter system calls on this architecture.
func seccompWorks() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))) //nolint:gosec // the system call needs a pointer
	return errno == 0 && auditArch() != 0
}
