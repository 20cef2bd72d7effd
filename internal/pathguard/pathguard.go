// Package pathguard confines every path that a tool uses to one root directory.
//
// A user's path is resolved once: Resolve follows all symbolic links, checks that the real path is inside the root and
// returns it relative to the root. Every operation takes that relative path and uses os.Root, which opens component by
// component. If a component is replaced by a link between the check and the use, the operation may fail, but it never
// accesses a file outside of the root (S4-004 to S4-007).
//
// Errors are *fault.Error: INVALID_FORMAT with reason INVALID_PATH for an invalid path, OUTSIDE_ROOT, PROTECTED_PATH
// for a hidden path, NOT_FOUND, FORBIDDEN with reason PERMISSION_DENIED, CONFLICT for a path that already exists.
package pathguard

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// Limits of the kernel, checked early for a clear error message.
const (
	maxPath  = 4096 // bytes
	maxLinks = 40
)

// Root is the directory that tools are confined to. It is safe for concurrent use.
type Root struct {
	dir  *os.Root
	name string
	// hidden are directories that tools cannot access, relative to the root.
	hidden []string
	// excludes reports whether a relative path is absent in this view (see Without). It is nil for a Root from Open.
	excludes func(rel string) bool
	// escape is the error of os.Root for a path that escapes the root. Package os does not export it.
	escape error
}

// Open opens the directory dir, which may be reached through symbolic links (S4-007). The caller must close the Root.
// hidden are absolute paths of directories, such as the data directory of the node. Paths in them cannot be resolved
// and are not walked.
func Open(dir string, hidden ...string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the root is not a valid path")
	}
	r := &Root{}
	if r.name, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, describe(abs, err)
	}
	if info, err := os.Stat(r.name); err == nil && !info.IsDir() {
		return nil, describe(r.name, syscall.ENOTDIR)
	}
	if r.dir, err = os.OpenRoot(r.name); err != nil {
		return nil, describe(r.name, err)
	}
	for _, path := range hidden {
		if err := r.hide(path); err != nil {
			return nil, errors.Join(err, r.dir.Close())
		}
	}
	_, err = r.dir.Lstat("..")
	if refused := (*os.PathError)(nil); errors.As(err, &refused) {
		r.escape = refused.Err
	}
	return r, nil
}

// hide adds a hidden directory. A directory outside of the root is ignored.
func (r *Root) hide(path string) error {
	target, err := realPath("/", path, true)
	if err != nil {
		return describe(path, err)
	}
	if rel, err := filepath.Rel(r.name, target); err == nil && filepath.IsLocal(rel) && rel != "." {
		r.hidden = append(r.hidden, rel)
	}
	return nil
}

// hides reports whether rel is a hidden directory or is in one.
func (r *Root) hides(rel string) bool {
	return slices.ContainsFunc(r.hidden, func(dir string) bool {
		return rel == dir || strings.HasPrefix(rel, dir+"/")
	})
}

// Close closes the directory.
func (r *Root) Close() error { return r.dir.Close() }

// Name returns the real absolute path of the root.
func (r *Root) Name() string { return r.name }

// Abs returns the absolute path of a path that Resolve returned.
func (r *Root) Abs(rel string) string { return filepath.Join(r.name, rel) }

// Resolve returns the real path of abs relative to the root; "." for the root itself. The file need not exist:
// components below the deepest existing directory are kept as they are, and a dangling link is replaced by its target.
func (r *Root) Resolve(abs string) (string, error) { return r.resolve(abs, true) }

// ResolveEntry is Resolve without following a link in the last component. It is meant for operations on the directory
// entry itself, such as removing it.
func (r *Root) ResolveEntry(abs string) (string, error) { return r.resolve(abs, false) }

func (r *Root) resolve(abs string, followLast bool) (string, error) {
	switch {
	case abs == "":
		return "", invalid("the path is empty")
	case strings.ContainsRune(abs, 0):
		return "", invalid("the path contains a NUL byte")
	case !filepath.IsAbs(abs):
		return "", invalid("the path is not absolute").WithHint("the root is %s", r.name)
	case len(abs) > maxPath:
		return "", invalid("the path is longer than 4096 bytes")
	}
	at, rest := "/", abs
	if below, ok := strings.CutPrefix(abs, r.name); ok && strings.HasPrefix(below, "/") {
		at, rest = r.name, below[1:] // it is real, and is the opened directory
	}
	target, err := realPath(at, rest, followLast)
	rel, inside := r.relative(target)
	if !inside {
		return "", r.outside()
	}
	if err != nil {
		return "", describe(target, err)
	}
	if r.hides(rel) {
		return "", fault.New(fault.ProtectedPath, "%s belongs to the node itself", target)
	}
	return rel, r.checkPresent(rel)
}

// relative returns a clean absolute path relative to the root. It returns false if the path is not inside of the root.
func (r *Root) relative(target string) (string, bool) {
	if below, ok := strings.CutPrefix(target, r.name); ok && len(below) > 1 && below[0] == '/' {
		return below[1:], true
	}
	rel, err := filepath.Rel(r.name, target)
	return rel, err == nil && filepath.IsLocal(rel)
}

// ExistingDir returns the real absolute path of an existing directory inside the root, for use as the
// working directory of a program.
func (r *Root) ExistingDir(abs string) (string, error) {
	rel, err := r.Resolve(abs)
	if err != nil {
		return "", err
	}
	info, err := r.Stat(rel)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", invalid("%s is not a directory", r.Abs(rel))
	}
	return r.Abs(rel), nil
}

// realPath resolves the links in path like the kernel, but accepts missing components. path is relative to the real
// directory at. On an error it returns the path resolved so far.
func realPath(at, path string, followLast bool) (string, error) {
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, part)
		if part == "" || part == "." || part == ".." || (len(rest) == 0 && !followLast) {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return next, syscall.ELOOP
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case errors.Is(err, syscall.EINVAL), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			at = next // not a link, or missing
		default:
			return next, err
		}
	}
	return at, nil
}

// Real returns a path without symbolic links, or the path itself if it cannot be resolved.
func Real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
