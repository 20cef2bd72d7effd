package proc

import (
	"os"
	"strconv"
	"syscall"
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
