package proc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// start starts cmd in the sandbox. The process is stopped before its first instruction until resume is called.
func (c *confinement) start(cmd *exec.Cmd) (resume func(), err error) {
	// There is no parent-death signal: it would be sent when the thread ends. The reaper kills the child when the node
	// dies; the child is registered before it runs.
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Ptrace = 0, true
	type outcome struct {
		thread int
		err    error
	}
	started := make(chan outcome)
	go onOtherThread(func() {
		err := c.enter()
		if err == nil {
			err = startStopped(cmd)
		}
		started <- outcome{unix.Gettid(), err}
	})
	o := <-started
	awaitEnd(o.thread)
	if o.err != nil {
		return nil, o.err
	}
	return func() { _ = unix.Kill(cmd.Process.Pid, unix.SIGCONT) }, nil
}

// onOtherThread runs f on a thread that ends afterwards. It is never the main thread: that cannot end, and the kernel
// uses its credentials for the whole process.
func onOtherThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // returning without unlocking ends the thread
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // another thread, because the main one is locked
		f()
	}()
	<-done
	runtime.UnlockOSThread()
}

// startStopped starts cmd on the calling thread and leaves it stopped before its first instruction.
func startStopped(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var info unix.Siginfo
	// WNOWAIT does not reap the process: if it was killed in the meantime, cmd.Wait must still find it.
	err := ignoringInterrupts(func() error {
		return unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL, nil)
	})
	const trapped = 4 // CLD_TRAPPED
	if err == nil && info.Code != trapped {
		return nil
	}
	if err == nil {
		err = detachStopped(pid)
	}
	if err == nil {
		return nil
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	return errors.Join(os.NewSyscallError("ptrace", err), cmd.Wait())
}

// detachStopped ends the tracing of a process and delivers SIGSTOP, so that the process stays stopped.
func detachStopped(pid int) error {
	// Without WEXITED only the stop is consumed: if the process was killed in the meantime, cmd.Wait must still find
	// it.
	err := ignoringInterrupts(func() error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WALL|unix.WNOHANG, nil)
	})
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0)
	if errno != 0 && errno != unix.ESRCH {
		return errno
	}
	return nil
}

// ignoringInterrupts calls f again while it returns EINTR.
func ignoringInterrupts(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// awaitEnd waits until a thread of this process no longer exists. The thread must be about to end.
func awaitEnd(thread int) {
	const between = 50 * time.Microsecond
	ticker := time.NewTicker(between)
	defer ticker.Stop()
	for unix.Tgkill(unix.Getpid(), thread, 0) == nil {
		<-ticker.C
	}
}
