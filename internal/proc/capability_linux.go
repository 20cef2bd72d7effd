package proc

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// keptCapabilities are the capabilities that root needs for the usual work with files and users. All others are
// dropped, because root could bypass the sandbox with them.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// capabilities returns the capabilities of the calling thread.
func capabilities() ([2]unix.CapUserData, error) {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	err := os.NewSyscallError("capget", unix.Capget(&header, &data[0]))
	return data, err
}

// effective reports whether the calling thread has a capability in its effective set.
func effective(capability int) bool {
	data, err := capabilities()
	return err == nil && data[capability/32].Effective&(1<<(capability%32)) != 0
}

// dropCapabilities drops all capabilities except keptCapabilities from the calling thread, and from every program that
// it starts, whatever the user.
func dropCapabilities() error {
	if effective(unix.CAP_SETPCAP) {
		for capability := range unix.CAP_LAST_CAP + 1 {
			if keptCapabilities&(1<<capability) != 0 {
				continue
			}
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // an older kernel has fewer capabilities
				return os.NewSyscallError("prctl", err)
			}
		}
	} else if err := checkBoundingSet(); err != nil {
		return err
	}
	data, err := capabilities()
	if err != nil {
		return err
	}
	data[0] = unix.CapUserData{Effective: data[0].Effective & keptCapabilities, Permitted: data[0].Permitted & keptCapabilities}
	data[1] = unix.CapUserData{}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}

// checkBoundingSet is for a thread that cannot reduce its bounding set. It returns EPERM if the thread runs as root and
// a program could regain capabilities that are not in keptCapabilities.
func checkBoundingSet() error {
	if os.Geteuid() != 0 && os.Getuid() != 0 {
		return nil // no_new_privs: no program can gain capabilities
	}
	for capability := range unix.CAP_LAST_CAP + 1 {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(capability), 0, 0, 0)
		if err == nil && has == 1 && keptCapabilities&(1<<capability) == 0 {
			return unix.EPERM
		}
	}
	return nil
}
