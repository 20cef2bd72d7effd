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

// Probe returns the confinement that the machine supports.
func Probe() Support {
	return Support{Landlock: landlockVersion(), Seccomp: seccompWorks(), Views: viewsWork(), Loopback: effective(unix.CAP_SYS_ADMIN)}
}

// confinement is the sandbox of one child. A thread of the node enters the sandbox and starts the child, which inherits
// it. The thread ends before the child's first instruction. It must end first: the kernel puts both into the same
// sandbox, so the child could access the thread and, through it, the node.
type confinement struct {
	mode Mode
	// view is the file system as the child sees it, when viewed is true.
	view   view
	viewed bool
	rules  *ruleset // nil without Landlock
	filter []unix.SockFilter
	// refusing is the filter to use if the broker cannot be installed. It refuses changes of metadata.
	refusing []unix.SockFilter
	broker   *broker // nil when the view restricts changes of metadata
	loopback bool
	// report is called in the mode BestEffort for each mechanism that cannot be applied.
	report func(mechanism string, err error)
}

// confinement prepares the sandbox of a command; nil for none.
func (r *Runner) confinement(c Command) (*confinement, error) {
	if r.mode == Off {
		return nil, nil //nolint:nilnil // no sandbox, no error
	}
	if err := errors.Join(absolute("sandbox.read", c.Sandbox.Read), absolute("sandbox.write", c.Sandbox.Write), absolute("sandbox.hidden", c.Sandbox.Hidden), absolute("sandbox.keep", c.Sandbox.Keep), absolute("sandbox.keep_in_view", c.Sandbox.KeepInView)); err != nil {
		return nil, err
	}
	support := r.support()
	if !support.Enough(r.mode) {
		return nil, unsupported(nil, fmt.Sprintf("%s needs Landlock %d, filters for system calls and, when it is required, mount namespaces; this process has: %s", r.mode, leastLandlock, support))
	}
	own := c.Sandbox.Loopback && !c.Sandbox.Network && support.Loopback
	sandbox := &confinement{mode: r.mode, viewed: support.Views, loopback: own, report: r.logMissing}
	sandbox.view = newView(c.Sandbox, r.shared, r.hiddenPlaces())
	if support.Landlock > 0 {
		var err error
		if sandbox.rules, err = r.rules(c.Sandbox, support, own); err != nil {
			return nil, err
		}
	}
	if support.Seccomp {
		if err := sandbox.filters(c.Sandbox.Network || own); err != nil {
			return nil, unsupported(err, "the filter for system calls is broken")
		}
	}
	return sandbox, nil
}

// filters prepares the filters for system calls.
func (c *confinement) filters(internet bool) error {
	if c.viewed {
		var err error
		c.filter, err = assemble(filter(internet, metadataFree))
		return err
	}
	var errs [2]error
	c.filter, errs[0] = assemble(filter(internet, metadataBrokered))
	c.refusing, errs[1] = assemble(filter(internet, metadataRefused))
	c.broker = newBroker(c.view)
	return errors.Join(errs[:]...)
}

// rules returns the Landlock rules for files.
func (r *Runner) rules(s Sandbox, support Support, loopback bool) (*ruleset, error) {
	rules, err := newRuleset(support.Landlock, s.Network || loopback)
	if err != nil {
		return nil, unsupported(err, "Landlock takes no rules")
	}
	hidden := r.hiddenPlaces()
	grant := func(rights uint64, paths []string, hides func(place string) []string) {
		for _, path := range paths {
			if path = filepath.Clean(path); err == nil {
				err = rules.allowExcept(path, rights, slices.Concat(hidden, hides(path)))
			}
		}
	}
	all := func(string) []string { return s.Hidden }
	grant(readRights, r.system(), all)
	grant(deviceRights, devices(), all)
	grant(readRights, s.Read, s.hiddenBelow)
	if support.Views {
		grant(writeRights, s.Write, s.uncoveredBelow)
	} else {
		grant(writeRights, s.Write, s.unwritableBelow)
	}
	if len(s.Write) > 0 {
		grant(writeRights, r.shared, all)
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

// hiddenPlaces returns the hidden paths and, for links among them, their targets.
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
	if c != nil && c.broker != nil {
		c.broker.close()
	}
}

// enter moves the calling thread into the sandbox, permanently.
func (c *confinement) enter() error {
	if c.viewed {
		// The filter allows changes of modes, owners and other metadata, so the view is required.
		if err := c.view.enter(); err != nil {
			if coded := (*fault.Error)(nil); errors.As(err, &coded) {
				return coded
			}
			return unsupported(err, "own view of the file system")
		}
	}
	for _, mechanism := range []struct {
		name  string
		apply func() error
	}{
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"own loopback network", c.network},
		{"capabilities", dropCapabilities},
		{"Landlock", c.files},
		{"filter for system calls", c.calls},
	} {
		err := mechanism.apply()
		switch {
		case err == nil:
		case c.mode != BestEffort:
			return unsupported(err, mechanism.name)
		default:
			c.report(mechanism.name, err)
		}
	}
	return nil
}

// files applies the Landlock rules to the calling thread.
func (c *confinement) files() error {
	if c.rules == nil {
		return unix.ENOSYS
	}
	return c.rules.enter()
}

// calls installs the filter for system calls on the calling thread, and starts the broker if there is one.
func (c *confinement) calls() error {
	if c.filter == nil {
		return unix.ENOSYS
	}
	if c.broker == nil {
		_, err := enterFilter(c.filter, 0)
		return err
	}
	listener, err := enterFilter(c.filter, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if err == nil {
		b := c.broker
		c.broker = nil // close must not stop it: it ends with its processes
		return b.serve(listener)
	}
	// This process already has a filter with a listener, or the kernel is too old.
	_, err = enterFilter(c.refusing, 0)
	return err
}

// network moves the thread into a new network namespace with only a loopback device and enables the device. It does
// nothing unless c.loopback is set.
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
