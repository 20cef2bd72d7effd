package proc

import (
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ipcFilter is the part of a filter that refuses shared memory, semaphores and message queues of System V and message
// queues of POSIX, which all processes of a machine find by number or name, whatever files they may touch. A child with
// a view has those of its own namespace alone. Without one it meets a kernel that was built without them.
func ipcFilter(viewed bool) []bpf.Instruction {
	if viewed {
		return nil
	}
	var program []bpf.Instruction
	for _, number := range []uint32{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_SEMGET, semop(), unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	} {
		program = append(program, on(number, refuse(unix.ENOSYS))...)
	}
	return program
}

// semop is the number of a system call that has none of its own on some machines without a filter.
func semop() uint32 {
	const amd64, others = 65, 193
	if runtime.GOARCH == "amd64" {
		return amd64
	}
	return others
}
