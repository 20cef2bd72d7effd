package proc

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
)

// view is the file system that one child sees in its own mount namespace. Only files below the writable places can be
// changed: contents, names, modes, owners, times and attributes. Hidden folders are empty; Landlock hides the contents
// of hidden files. A view includes an IPC namespace for shared memory, semaphores and message queues, which end with
// its last process.
type view []place

// place is a file or folder that a view treats differently from its parent folder.
type place struct {
	path string
	kind placeKind
}

type placeKind int

const (
	hiddenPlace placeKind = iota
	readPlace
	writePlace
	// keptPlace is a read-only place below a writable one. pinnedPlace is a folder between these two. It is writable
	// but cannot be moved.
	keptPlace
	pinnedPlace
)

// inherited returns the kind that applies to places below a place of kind k.
func (k placeKind) inherited() placeKind {
	switch k {
	case keptPlace:
		return readPlace
	case pinnedPlace:
		return writePlace
	default:
		return k
	}
}

// newView returns the view of a command. The paths in always are hidden for every command. A place in s.Read or s.Write
// is accessible even if it is below a path of s.Hidden.
func newView(s Sandbox, shared, always []string) view {
	var all view
	add := func(kind placeKind, paths []string, hides func(string) []string) {
		for _, path := range paths {
			path = filepath.Clean(path)
			hidden := slices.Concat(always, hides(path))
			if !slices.ContainsFunc(hidden, func(h string) bool { return within(path, h) }) {
				all = append(all, place{path, kind})
			}
		}
	}
	for _, path := range slices.Concat(always, s.Hidden) {
		all = append(all, place{filepath.Clean(path), hiddenPlace})
	}
	add(readPlace, s.Read, s.hiddenBelow)
	add(writePlace, s.Write, s.hiddenBelow)
	if len(s.Write) > 0 {
		add(writePlace, shared, func(string) []string { return s.Hidden })
	}
	return append(all, keptPlaces(s)...).prune()
}

// keptPlaces returns the places that a command must not change, and the folders between each of them and its writable
// place.
func keptPlaces(s Sandbox) (all view) {
	for _, path := range slices.Concat(s.Keep, s.KeepInView) {
		path = filepath.Clean(path)
		for _, write := range s.Write {
			if write = filepath.Clean(write); write == path || !within(path, write) {
				continue
			}
			all = append(all, place{path, keptPlace})
			for above := filepath.Dir(path); above != write; above = filepath.Dir(above) {
				all = append(all, place{above, pinnedPlace})
			}
		}
	}
	return all
}

// prune sorts folders before their content, and removes places that have the same kind as their parent.
func (v view) prune() view {
	slices.SortFunc(v, func(a, b place) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.kind, b.kind)) })
	var kept view
	for _, p := range v {
		above := readPlace
		for _, k := range kept {
			if within(p.path, k.path) {
				above = k.kind.inherited() // places further below come later
			}
		}
		special := (p.kind == keptPlace || p.kind == pinnedPlace) && above == writePlace && !slices.Contains(kept, p)
		if special || p.kind.inherited() == p.kind && p.kind != above && (p.kind != readPlace || above != writePlace) {
			kept = append(kept, p)
		}
	}
	return kept
}

// enter moves the calling thread into the view, permanently.
func (v view) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/", Err: err}
	}
	trees := slices.Repeat([]int{-1}, len(v))
	defer func() { closeAll(trees) }()
	var err error
	for i, p := range v {
		if trees[i], err = p.copy(); err != nil {
			return err
		}
	}
	if !slices.Contains(v, place{"/", writePlace}) {
		if err := readOnly(unix.AT_FDCWD, "/", unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	return v.arrange(trees)
}

// arrange mounts the copies at their places and covers the hidden places.
func (v view) arrange(trees []int) error {
	var covers []int
	defer func() { closeAll(covers) }()
	for i, p := range v {
		switch {
		case p.path == "/":
		case p.kind == hiddenPlace:
			cover, err := p.cover()
			if err != nil {
				return err
			}
			covers = append(covers, cover)
		case trees[i] >= 0:
			if err := p.mount(trees[i]); err != nil {
				return err
			}
		}
	}
	for _, cover := range covers {
		if cover >= 0 {
			if err := readOnly(cover, "", 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy returns a descriptor of a copy of the mounts at the place, or -1 if the place is hidden, is / or does not exist.
func (p place) copy() (int, error) {
	if p.kind == hiddenPlace || p.path == "/" {
		return -1, nil
	}
	at, err := openPlace(p.path)
	switch {
	case errors.Is(err, unix.ELOOP):
		return -1, linkError(p.path)
	case absent(err):
		return -1, nil
	case err != nil:
		return -1, &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: p.path, Err: err}
	}
	if p.kind.inherited() == readPlace {
		if err := readOnly(tree, "", unix.AT_RECURSIVE); err != nil {
			return -1, errors.Join(err, unix.Close(tree))
		}
	}
	return tree, nil
}

// mount mounts a copy of the place at its path.
func (p place) mount(tree int) error {
	at, err := openPlace(p.path)
	if absent(err) { // the place is below a hidden folder, which is now empty
		if err = p.makeMountPoint(tree); err == nil {
			at, err = openPlace(p.path)
		}
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	return p.attach(tree, at)
}

// makeMountPoint creates a mount point for a copy. That is only possible below hidden folders, because everything else is
// read-only.
func (p place) makeMountPoint(tree int) error {
	const passable = 0o755 // for the user to which root may switch
	var stat unix.Stat_t
	if err := unix.Fstat(tree, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(p.path, passable)
	}
	if err := os.MkdirAll(filepath.Dir(p.path), passable); err != nil {
		return err
	}
	return os.WriteFile(p.path, nil, 0o600)
}

// cover mounts an empty folder over a hidden folder, or makes a hidden file read-only. For a folder it returns the
// descriptor of the new mount, otherwise -1.
func (p place) cover() (int, error) {
	at, err := openPlace(p.path)
	switch {
	case absent(err), errors.Is(err, unix.ELOOP): // the target of the link is hidden, too
		return -1, nil
	case err != nil:
		return -1, &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		return -1, &os.PathError{Op: "stat", Path: p.path, Err: err}
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		empty, err := emptyFolder()
		if err == nil {
			err = p.attach(empty, at)
		}
		return empty, err
	}
	// Landlock hides its contents.
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: p.path, Err: err}
	}
	defer func() { _ = unix.Close(tree) }()
	if err := readOnly(tree, "", 0); err != nil {
		return -1, err
	}
	return -1, p.attach(tree, at)
}

// attach moves the mount tree to the place that at denotes.
func (p place) attach(tree, at int) error {
	err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "move_mount", Path: p.path, Err: err}
	}
	return nil
}

// emptyFolder returns the descriptor of a new, empty file system.
func emptyFolder() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	if err := unix.FsconfigSetString(fs, "mode", "0755"); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return mount, os.NewSyscallError("fsmount", err)
}

// readOnly makes a mount read-only: the mount at path, or the mount of fd if path is empty. With AT_RECURSIVE it
// includes the mounts below.
func readOnly(fd int, path string, recursive uint) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	flags := recursive
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, path, flags, &attr))
}

// openPlace returns an O_PATH descriptor of a file or folder. The path must not contain symbolic links.
func openPlace(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// absent reports whether err means that a place does not exist, or that this process cannot access it. The child cannot
// access it then either.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}

// linkError returns the error for a path that contains a symbolic link.
func linkError(path string) error {
	return fault.New(fault.OutsideRoot, "%s leads through a symbolic link", path).WithField("sandbox").
		WithHint("something has put the link there; remove it")
}

// closeAll closes the descriptors that are not negative.
func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// viewsWork reports whether this process can create views for its children.
func viewsWork() bool {
	works := make(chan bool)
	go onOtherThread(func() {
		works <- view{{"/proc", hiddenPlace}}.enter() == nil
	})
	return <-works
}
