package proc

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// metadataPolicy is the treatment of system calls that change modes, owners, times and attributes of files.
type metadataPolicy int

const (
	// metadataFree allows them: the view of the file system restricts them.
	metadataFree metadataPolicy = iota
	// metadataBrokered lets the broker make the allowed changes.
	metadataBrokered
	// metadataRefused denies all of them.
	metadataRefused
)

// metadataFilter returns the part of a filter that restricts changes of metadata. File system ioctls, such as those for
// file flags, are refused even if a broker makes the other changes.
func metadataFilter(policy metadataPolicy) []bpf.Instruction {
	if policy == metadataFree {
		return nil
	}
	verdict := bpf.Instruction(bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})
	if policy == metadataRefused {
		verdict = refuse(unix.EPERM)
	}
	var program []bpf.Instruction
	for number := range metadataCalls() {
		program = append(program, onCall(number, verdict)...)
	}
	// Programs have a fallback for these three, because old kernels lack them.
	for _, number := range []uint32{unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR} {
		program = append(program, onCall(number, refuse(unix.ENOSYS))...)
	}
	return append(program, onCall(unix.SYS_IOCTL, refuseFileSystemIoctls()...)...)
}

// refuseFileSystemIoctls refuses file system ioctls, except queries and clones between files.
func refuseFileSystemIoctls() []bpf.Instruction {
	const (
		fiemap, getAttributes, getVersion = 0xc020660b, 0x801c581f, 0x80087601
		kind                              = 8 // bits below the type of the ioctl
	)
	harmless := []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE, unix.FS_IOC_GETFLAGS, fiemap, getAttributes, getVersion}
	types := []uint32{'f', 'X', 'v', 'r', 0x94} // of ext4, xfs, versions, FAT, btrfs
	body := []bpf.Instruction{argument(1)}
	rest := len(harmless) + 2 + len(types) + 1 // instructions up to the end of the body
	for _, request := range harmless {
		rest--
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: request, SkipTrue: uint8(rest)}) //nolint:gosec // fewer than 256
	}
	body = append(body, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: kind}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff})
	for i, t := range types {
		jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: t, SkipTrue: uint8(len(types) - 1 - i)} //nolint:gosec // fewer than 256
		if i == len(types)-1 {
			jump.SkipFalse = 1 // skip the refusal
		}
		body = append(body, jump)
	}
	return append(body, refuse(unix.EPERM))
}
