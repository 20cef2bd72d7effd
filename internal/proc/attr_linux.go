package proc

import "syscall"

// sessionAttr gives a child its own session, and has the kernel end it when the node dies. The
// signal reaches the child alone: what it has started is left to the reaper.
func sessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
