package proc_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// metadataAttacks returns attacks that change the metadata of a file, by name. The values that they set differ from the
// previous ones.
func metadataAttacks() map[string]func(path string) error {
	return map[string]func(string) error{
		"chmod":           func(path string) error { return unix.Chmod(path, 0o777) },
		"set setuid":      func(path string) error { return unix.Chmod(path, 0o4755) },
		"fchmod":          byDescriptor(func(fd int) error { return unix.Fchmod(fd, 0o777) }),
		"fchmodat":        func(path string) error { return unix.Fchmodat(unix.AT_FDCWD, path, 0o777, 0) },
		"fchmodat2":       func(path string) error { return unix.Fchmodat(unix.AT_FDCWD, path, 0o777, unix.AT_SYMLINK_NOFOLLOW) },
		"chmod by number": byDescriptor(func(fd int) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o777) }),
		"chmod by path descriptor": func(path string) error {
			fd, err := unix.Open(path, unix.O_PATH, 0)
			if err != nil {
				return err
			}
			return errors.Join(call6(unix.SYS_FCHMODAT2, uintptr(fd), pointer(""), 0o777, unix.AT_EMPTY_PATH), unix.Close(fd))
		},
		"chmod by link": byLink(func(path string) error { return unix.Chmod(path, 0o777) }),
		"chmod by folder": func(path string) error {
			return unix.Chmod(filepath.Dir(path)+"/../"+filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), 0o777)
		},
		"chmod by process": func(path string) error {
			return unix.Chmod("/proc/"+strconv.Itoa(os.Getppid())+"/root"+path, 0o777)
		},
		"chown":      func(path string) error { return unix.Chown(path, os.Getuid(), os.Getgid()) },
		"chown away": func(path string) error { return unix.Chown(path, 1, 1) },
		"lchown":     func(path string) error { return unix.Lchown(path, os.Getuid(), os.Getgid()) },
		"fchown":     byDescriptor(func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) }),
		"fchownat":   func(path string) error { return unix.Fchownat(unix.AT_FDCWD, path, os.Getuid(), os.Getgid(), 0) },
		"utimes":     func(path string) error { return unix.Utimes(path, []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
		"utimensat": func(path string) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
		},
		"touch link": byLink(func(path string) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
		}),
		"futimens":       byDescriptor(func(fd int) error { return call6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0) }),
		"setxattr":       func(path string) error { return unix.Setxattr(path, "user.orch", []byte("owned"), 0) },
		"lsetxattr":      func(path string) error { return unix.Lsetxattr(path, "user.orch", []byte("owned"), 0) },
		"fsetxattr":      byDescriptor(func(fd int) error { return unix.Fsetxattr(fd, "user.orch", []byte("owned"), 0) }),
		"removexattr":    func(path string) error { return unix.Removexattr(path, "user.kept") },
		"fremovexattr":   byDescriptor(func(fd int) error { return unix.Fremovexattr(fd, "user.kept") }),
		"file flags":     byDescriptor(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x80) }), // no access times
		"file flags x":   byDescriptor(projectFlags),
		"rename":         func(path string) error { return unix.Rename(path, path+".moved") },
		"swap":           swap,
		"link and chmod": func(path string) error { return errors.Join(os.Link(path, "linked"), unix.Chmod("linked", 0o777)) },
		"race of links":  raceLinks,
		"race of memory": raceMemory,
		"chmod of stdin": func(string) error { return unix.Fchmod(0, 0o777) },
	}
}

// escapes try to get out of the view, by name.
func escapes() map[string]func(string) error {
	return map[string]func(string) error{
		"remount": func(path string) error {
			return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		},
		"bind":       func(path string) error { return unix.Mount(path, path, "", unix.MS_BIND, "") },
		"umount":     func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) },
		"pivot root": func(path string) error { return unix.PivotRoot(path, path) },
		"open tree": func(path string) error {
			_, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
			return err
		},
		"mount attributes": func(path string) error {
			return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		},
		"new file system": func(string) error { _, err := unix.Fsopen("tmpfs", 0); return err },
		"join mounts":     joinMounts,
		"user and mount namespace": func(string) error {
			return unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
		},
		"clone into namespaces": func(string) error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				for {
					_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // the child
				}
			}
			if errno != 0 {
				return errno
			}
			return nil
		},
		"chroot out": func(string) error { return unix.Chroot(".") },
	}
}

func everyAttack() map[string]func(string) error {
	all := attacks()
	maps.Copy(all, metadataAttacks())
	maps.Copy(all, escapes())
	all[allMetadata] = func(path string) error { return firstThrough(metadataAttacks(), path) }
	return all
}

// allMetadata is the attack that tries all of metadataAttacks, in one process.
const allMetadata = "all metadata"

// firstThrough tries all attacks. It returns nil if one succeeded, and prints which.
func firstThrough(attacks map[string]func(string) error, path string) error {
	var errs []error
	for name, attack := range attacks {
		err := attack(path)
		if err == nil {
			_, _ = fmt.Fprintln(os.Stdout, name, "got through")
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	return errors.Join(errs...)
}

// byDescriptor does something with a file that was opened to be read, or to be named where it may not be read.
func byDescriptor(do func(fd int) error) func(string) error {
	return func(path string) error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			fd, err = unix.Open(path, unix.O_PATH, 0)
		}
		if err != nil {
			return err
		}
		return errors.Join(do(fd), unix.Close(fd))
	}
}

func byLink(do func(path string) error) func(string) error {
	return func(path string) error {
		_ = os.Remove("link")
		return errors.Join(os.Symlink(path, "link"), do("link"))
	}
}

const races = 300

// raceLinks changes the mode through a link that alternates between an own file and the target.
func raceLinks(path string) error {
	if err := os.WriteFile("mine", nil, 0o600); err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range races {
			target := []string{"mine", path}[i%2]
			_ = os.Remove("next")
			_ = os.Symlink(target, "next")
			_ = os.Rename("next", "turning")
		}
	}()
	for {
		select {
		case <-over:
			return unix.Chmod(path, 0o777)
		default:
			_ = unix.Chmod("turning", 0o777)
		}
	}
}

// raceMemory changes the path in memory while the system call reads it.
func raceMemory(path string) error {
	if err := os.WriteFile("mine", nil, 0o600); err != nil {
		return err
	}
	text := make([]byte, unix.PathMax)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range races {
			_ = call6(unix.SYS_FCHMODAT, ^uintptr(99), uintptr(unsafe.Pointer(&text[0])), 0o777)
		}
	}()
	for {
		select {
		case <-over:
			return unix.Chmod(path, 0o777)
		default:
			copy(text, "mine\x00")
			copy(text, path+"\x00")
		}
	}
}

func swap(path string) error {
	if err := os.WriteFile("mine", nil, 0o600); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, "mine", unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
}

func projectFlags(fd int) error {
	const set = 0x401c5820 // FS_IOC_FSSETXATTR
	attr := [7]uint32{0x40}
	return call6(unix.SYS_IOCTL, uintptr(fd), set, uintptr(unsafe.Pointer(&attr)))
}

func joinMounts(pid string) error {
	runtime.LockOSThread() // and never unlocked: the thread is changed
	f, err := os.Open("/proc/" + pid + "/ns/mnt")
	if err != nil {
		return err
	}
	return errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(f.Fd()), unix.CLONE_NEWNS), f.Close())
}

func pointer(text string) uintptr {
	p, err := unix.BytePtrFromString(text)
	if err != nil {
		panic(err)
	}
	return uintptr(unsafe.Pointer(p))
}

func call6(number uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	if _, _, errno := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}
