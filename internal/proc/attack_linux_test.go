package proc_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackName is the variable that makes this binary an attacker, and attackTarget its target.
const (
	attackName   = "PROC_TEST_ATTACK"
	attackTarget = "PROC_TEST_TARGET"
)

// attacks returns the attacks of a hostile child, by name. An attack returns nil if it succeeded.
func attacks() map[string]func(target string) error {
	return map[string]func(string) error{
		"read":           func(path string) error { _, err := os.ReadFile(path); return err },
		"list":           func(path string) error { _, err := os.ReadDir(path); return err },
		"write":          func(path string) error { return os.WriteFile(path, []byte("owned"), 0o600) },
		"truncate":       func(path string) error { return os.Truncate(path, 0) },
		"remove":         os.Remove,
		"mkdir":          func(path string) error { return os.Mkdir(path, 0o700) },
		"move away":      func(path string) error { return os.Rename(path, "moved") },
		"hard link":      func(path string) error { return os.Link(path, "linked") },
		"read by link":   readByLink,
		"bind unix":      func(path string) error { return closed(net.Listen("unix", path)) },
		"dial unix":      func(path string) error { return closed(net.Dial("unix", path)) },
		"dial tcp":       func(addr string) error { return closed(net.Dial("tcp", addr)) },
		"dial udp":       sendUDP,
		"dial abstract":  func(name string) error { return closed(net.Dial("unix", "@"+name)) },
		"listen":         func(addr string) error { return closed(net.Listen("tcp", addr)) },
		"datagram pair":  func(string) error { return pair(unix.SOCK_DGRAM) },
		"socket vsock":   func(string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) },
		"socket packet":  func(string) error { return socket(unix.AF_PACKET, unix.SOCK_RAW) },
		"socket alg":     func(string) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET) },
		"raw socket":     func(string) error { return socket(unix.AF_INET, unix.SOCK_RAW) },
		"signal":         func(pid string) error { return unix.Kill(number(pid), 0) },
		"kill":           func(pid string) error { return unix.Kill(number(pid), unix.SIGKILL) },
		"pidfd signal":   pidfdSignal,
		"steal file":     stealFile,
		"ptrace":         attach,
		"read memory":    readMemory,
		"signal threads": everyThread(func(pid, thread string) error { return unix.Tgkill(number(pid), number(thread), 0) }),
		"environment of threads": everyThread(func(pid, thread string) error {
			_, err := os.ReadFile("/proc/" + pid + "/task/" + thread + "/environ")
			return err
		}),
		"memory of threads": everyThread(func(pid, thread string) error { return readMemory(pid + "/task/" + thread) }),
		"trace threads":     everyThread(func(_, thread string) error { return attach(thread) }),
		"limit": func(pid string) error {
			return unix.Prlimit(number(pid), unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1}, nil)
		},
		"renice":                 func(pid string) error { return unix.Setpriority(unix.PRIO_PROCESS, number(pid), 19) },
		"renice user":            func(string) error { return unix.Setpriority(unix.PRIO_USER, 0, 19) },
		"raise limit":            func(string) error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
		"io_uring":               func(string) error { return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(new([120]byte)))) },
		"keyring":                func(string) error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1) },
		"bpf":                    func(string) error { return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(new([128]byte))), 128) },
		"user namespace":         func(string) error { return unshare(unix.CLONE_NEWUSER) },
		"mount namespace":        func(string) error { return unshare(unix.CLONE_NEWNS) },
		"join network":           joinNetwork,
		"mount":                  func(path string) error { return unix.Mount("none", path, "tmpfs", 0, "") },
		"chroot":                 unix.Chroot,
		"device node":            func(path string) error { return unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))) },
		"file handle":            fileHandle,
		"set clock":              func(string) error { return unix.Settimeofday(&unix.Timeval{}) },
		"set host name":          func(string) error { return unix.Sethostname([]byte("owned")) },
		"old interface":          oldInterface,
		"attach memory":          attachMemory,
		"find memory":            func(key string) error { return call(unix.SYS_SHMGET, numberOf(key), 0, 0) },
		"find queue":             func(key string) error { return call(unix.SYS_MSGGET, numberOf(key), 0) },
		"send to queue":          sendToQueue,
		"find semaphores":        func(key string) error { return call(unix.SYS_SEMGET, numberOf(key), 0, 0) },
		"add semaphores":         addSemaphores(unix.SYS_SEMOP),
		"add semaphores in time": addSemaphores(unix.SYS_SEMTIMEDOP),
		"open POSIX queue": func(name string) error {
			return call6(unix.SYS_MQ_OPEN, pointer(name[1:]), unix.O_RDWR, 0, 0)
		},
		"remove POSIX queue": func(name string) error { return call6(unix.SYS_MQ_UNLINK, pointer(name[1:])) },
		"own memory":         func(key string) error { return makeIPC(unix.SYS_SHMGET, numberOf(key)) },
	}
}

// attacked runs the attack that the environment selects, if any: its exit code is 0 if it succeeded.
func attacked() (tried bool, code int) {
	name := os.Getenv(attackName)
	if name == "" {
		return false, 0
	}
	if err := everyAttack()[name](os.Getenv(attackTarget)); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return true, 1
	}
	return true, 0
}

// everyThread tries something on each thread of a process until it gets through.
func everyThread(try func(pid, thread string) error) func(string) error {
	return func(pid string) error {
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			return err
		}
		var errs []error
		for _, thread := range threads {
			err := try(pid, thread.Name())
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func closed(c interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

func call(number uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0)
	if _, _, errno := unix.Syscall(number, args[0], args[1], args[2]); errno != 0 {
		return errno
	}
	return nil
}

func readByLink(path string) error {
	if err := os.Symlink(path, "link"); err != nil {
		return err
	}
	_, err := os.ReadFile("link")
	return err
}

func sendUDP(addr string) error {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("hello"))
	return errors.Join(err, c.Close())
}

func socket(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func pair(kind int) error {
	_, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	return err
}

func pidfdSignal(pid string) error {
	fd, err := unix.PidfdOpen(number(pid), 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func stealFile(pid string) error {
	fd, err := unix.PidfdOpen(number(pid), 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

func attach(pid string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(number(pid)); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(number(pid), &status, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(number(pid))
}

func readMemory(pid string) error {
	f, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return err
	}
	return f.Close()
}

func unshare(flag int) error {
	runtime.LockOSThread() // and never unlocked: the thread is changed
	return unix.Unshare(flag)
}

func joinNetwork(pid string) error {
	runtime.LockOSThread()
	f, err := os.Open("/proc/" + pid + "/ns/net")
	if err != nil {
		return err
	}
	return errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
}

func fileHandle(path string) error {
	handle, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	_ = mount
	dir, err := os.Open(".")
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(int(dir.Fd()), handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// oldInterface creates a socket with the system call number of another ABI of amd64.
func oldInterface(string) error {
	const x32 = 0x40000000
	return call(x32|unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
}
