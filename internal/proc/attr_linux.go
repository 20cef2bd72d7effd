package proc

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sessionAttr gives a child its own session, and makes the kernel kill it when the node dies. The signal reaches only
// the child itself: the reaper kills the child's descendants.
func sessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// preferOOMKill makes the kernel kill a child and its descendants before the node when memory runs out. If that cannot
// be set, the kernel chooses by size.
func preferOOMKill(pid int) {
	const score = "500"
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(score), 0)
}

// apply limits the resources of a child, and disables core files, which would contain its memory.
func (l Limits) apply(pid int) error {
	var errs []error
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_FSIZE: l.FileSize, unix.RLIMIT_DATA: l.Memory,
	} {
		if limit == 0 && resource != unix.RLIMIT_CORE {
			continue
		}
		var now unix.Rlimit
		err := unix.Prlimit(pid, resource, nil, &now)
		if err == nil {
			err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(limit, now.Cur), Max: min(limit, now.Max)}, nil)
		}
		if !errors.Is(err, unix.ESRCH) { // ESRCH: the child has ended
			errs = append(errs, os.NewSyscallError("prlimit", err))
		}
	}
	return errors.Join(errs...)
}
