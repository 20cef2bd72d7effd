package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
)

// Probe tells what the machine can confine.
func Probe() Support {
	return Support{Landlock: landlockVersion(), Seccomp: seccompWorks(), Loopback: effective(unix.CAP_SYS_ADMIN)}
}

// confinement is the walls around one child. A thread of the node puts them around itself, starts the
// child, which inherits them, and is gone before the child's first instruction. That order matters: for the
// kernel the two are behind the same walls, so that the child could reach the thread, and the node with it.
type confinement struct {
	mode     Mode
	rules    *ruleset // nil without Landlock
	filter   []unix.SockFilter
	loopback bool
	// complain is told what is missing with BestEffort.
	complain func(what string, err error)
}

// confinement prepares the walls around a command, nil when there are to be none.
func (r *Runner) confinement(c Command) (*confinement, error) {
	if r.mode == Off {
		return nil, nil //nolint:nilnil // no walls, no error
	}
	if err := errors.Join(absolute("sandbox.read", c.Sandbox.Read), absolute("sandbox.write", c.Sandbox.Write)); err != nil {
		return nil, err
	}
	support := Probe()
	if r.mode == Enforce && !support.Enough() {
		return nil, unsupported(nil, fmt.Sprintf("the kernel has Landlock %d and needs %d, filters for system calls: %t", support.Landlock, leastLandlock, support.Seccomp))
	}
	own := c.Sandbox.Loopback && !c.Sandbox.Network && support.Loopback
	walls := &confinement{mode: r.mode, loopback: own, complain: r.incomplete}
	if support.Landlock > 0 {
		var err error
		if walls.rules, err = r.rules(c.Sandbox, support.Landlock, own); err != nil {
			return nil, err
		}
	}
	if support.Seccomp {
		var err error
		if walls.filter, err = assemble(filter(c.Sandbox.Network || own)); err != nil {
			return nil, unsupported(err, "the filter for system calls is broken")
		}
	}
	return walls, nil
}

// rules lists the files for Landlock.
func (r *Runner) rules(s Sandbox, version int, loopback bool) (*ruleset, error) {
	rules, err := newRuleset(version, s.Network || loopback)
	if err != nil {
		return nil, unsupported(err, "Landlock takes no rules")
	}
	hidden := r.hiddenPlaces()
	grant := func(rights uint64, paths ...[]string) {
		for _, path := range slices.Concat(paths...) {
			if err == nil {
				err = rules.carve(filepath.Clean(path), rights, hidden)
			}
		}
	}
	grant(readRights, r.system(), s.Read)
	grant(deviceRights, devices())
	grant(writeRights, s.Write)
	if len(s.Write) > 0 {
		grant(writeRights, r.shared)
	}
	if err == nil {
		return rules, nil
	}
	rules.close()
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return nil, e
	}
	return nil, unsupported(err, "a rule for files cannot be made")
}

// hiddenPlaces returns the hidden paths, and where they lead to.
func (r *Runner) hiddenPlaces() []string {
	places := slices.Clone(r.hidden)
	for _, path := range r.hidden {
		if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
			places = append(places, target)
		}
	}
	return places
}

func (c *confinement) close() {
	if c != nil && c.rules != nil {
		c.rules.close()
	}
}

// enter puts the walls around the calling thread, for good.
func (c *confinement) enter() error {
	for _, wall := range []struct {
		name  string
		build func() error
	}{
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"own loopback network", c.network},
		{"capabilities", dropCapabilities},
		{"Landlock", c.files},
		{"filter for system calls", c.calls},
	} {
		err := wall.build()
		switch {
		case err == nil:
		case c.mode == Enforce:
			return unsupported(err, wall.name)
		default:
			c.complain(wall.name, err)
		}
	}
	return nil
}

func (c *confinement) files() error {
	if c.rules == nil {
		return unix.ENOSYS
	}
	return c.rules.enter()
}

func (c *confinement) calls() error {
	if c.filter == nil {
		return unix.ENOSYS
	}
	return enterFilter(c.filter)
}

// network moves the thread into a network of its own, where only the loopback device is, and turns
// that on.
func (c *confinement) network() error {
	if !c.loopback {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, device))
}
