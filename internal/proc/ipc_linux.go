package proc

import (
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ipcFilter returns the part of a filter that refuses System V IPC and POSIX message queues. All processes of a machine
// can access these by number or name, independently of file permissions. A child with a view has its own IPC namespace,
// so they are allowed. Without a view they fail as on a kernel that was built without them.
func ipcFilter(viewed bool) []bpf.Instruction {
	if viewed {
		return nil
	}
	var program []bpf.Instruction
	for _, number := range []uint32{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_SEMGET, semop(), unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	} {
		program = append(program, onCall(number, refuse(unix.ENOSYS))...)
	}
	return program
}

// semop returns the number of the system call semop. Package unix does not define it for every architecture.
func semop() uint32 {
	const amd64, others = 65, 193
	if runtime.GOARCH == "amd64" {
		return amd64
	}
	return others
}
