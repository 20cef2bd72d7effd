package proc

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sessionAttr gives a child its own session, and has the kernel end it when the node dies. The
// signal reaches the child alone: what it has started is left to the reaper.
func sessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// expendable has the kernel end a child, and what it starts, rather than the node when memory runs out.
// Where that cannot be said, the kernel chooses by size.
func expendable(pid int) {
	const score = "500"
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(score), 0)
}

// apply bounds what a child uses up from now on, and forbids core files, which hold its memory.
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
		if !errors.Is(err, unix.ESRCH) { // it has ended
			errs = append(errs, os.NewSyscallError("prlimit", err))
		}
	}
	return errors.Join(errs...)
}
