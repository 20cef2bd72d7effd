package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sets of Landlock rights that are granted together.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	// fileRights are the rights that apply to files.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockVersion returns the version of the kernel's Landlock ABI; 0 without Landlock.
func landlockVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// ruleset is a set of Landlock rules: every handled right is denied unless a rule allows it.
type ruleset struct {
	fd      int
	handled uint64
}

// newRuleset returns a set that denies everything that this version of Landlock can deny: access to files, device
// ioctls, TCP unless network is true, and signals and abstract sockets to processes outside of the sandbox.
func newRuleset(version int, network bool) (*ruleset, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	for _, step := range []struct {
		version         int
		fs, net, scopes uint64
	}{
		{2, unix.LANDLOCK_ACCESS_FS_REFER, 0, 0},
		{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE, 0, 0},
		{4, 0, unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, 0},
		{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0, 0},
		{6, 0, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
	} {
		if version >= step.version {
			attr.Handled_access_fs |= step.fs
			attr.Handled_access_net |= step.net
			attr.Scoped |= step.scopes
		}
	}
	if network {
		attr.Handled_access_net = 0
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) //nolint:gosec // the system call needs a pointer
	if errno != 0 {
		return nil, errno
	}
	return &ruleset{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

func (s *ruleset) close() { _ = unix.Close(s.fd) }

// allow grants rights to the file or folder at a path, which must not contain symbolic links. A missing path is
// ignored.
func (s *ruleset) allow(path string, rights uint64) error {
	fd, err := openPlace(path)
	switch {
	case absent(err):
		return nil // the child cannot access it either
	case errors.Is(err, unix.ELOOP):
		return linkError(path)
	case err != nil:
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & s.handled, Parent_fd: int32(fd)} //nolint:gosec // descriptors fit in 32 bits
	if rule.Allowed_access == 0 {
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0) //nolint:gosec // the system call needs a pointer
	if errno != 0 {
		return &os.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
	return nil
}

// allowExcept grants rights to path and everything below, except the hidden places. Rules can only add rights. So a
// folder that contains a hidden place may only be listed, and each of its entries gets its own rule.
func (s *ruleset) allowExcept(path string, rights uint64, hidden []string) error {
	if slices.ContainsFunc(hidden, func(h string) bool { return within(path, h) }) {
		return nil
	}
	below := make([]string, 0, len(hidden))
	for _, h := range hidden {
		if within(h, path) {
			below = append(below, h)
		}
	}
	if len(below) == 0 {
		return s.allow(path, rights)
	}
	if err := s.allow(path, rights&unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			continue // the rule of its target applies, if there is one
		}
		if err := s.allowExcept(filepath.Join(path, e.Name()), rights, below); err != nil {
			return err
		}
	}
	return nil
}

// enter confines the calling thread and its children, permanently.
func (s *ruleset) enter() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(s.fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
