package pathguard

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// Move moves the file or directory from to to. The parent of to must exist. A file replaces an existing file
// atomically; a directory replaces an empty directory. Move reports whether it replaced something.
//
// Errors: CONFLICT when to is a directory with content, or when only one of from and to is a directory; CONFLICT with
// the reason CROSS_DEVICE when they are on different file systems; INVALID_FORMAT when a directory would be moved into
// itself.
func (r *Root) Move(from, to string) (bool, error) {
	if err := cmp.Or(r.checkPresent(from), r.checkPresent(to), r.checkNoHidden(from), r.checkNoHidden(to), r.checkNoAbsent(from)); err != nil {
		return false, err
	}
	if strings.HasPrefix(to, from+"/") || from == "." {
		return false, invalid("%s cannot be moved into itself", r.Abs(from))
	}
	source, err := r.Lstat(from)
	if err != nil {
		return false, err
	}
	old, err := r.Lstat(to)
	switch {
	case fault.Has(err, fault.NotFound):
	case err != nil:
		return false, err
	case old.IsDir() != source.IsDir():
		return false, fault.New(fault.Conflict, "%s exists, and only one of the two is a directory", r.Abs(to))
	case !old.IsDir() && os.SameFile(old, source):
		return true, r.Remove(from) // two links to one file: rename would keep both
	}
	if err := r.rename(from, to, old); err != nil {
		return false, r.moveFailed(from, to, err)
	}
	return old != nil, r.syncDirs(filepath.Dir(from), filepath.Dir(to))
}

// rename moves from to to. old describes the existing file or directory at to, or is nil if there is none. An existing
// directory is removed first, because os.Root does not rename over one.
func (r *Root) rename(from, to string, old fs.FileInfo) error {
	if old == nil || !old.IsDir() {
		return r.dir.Rename(from, to)
	}
	if err := r.dir.Remove(to); err != nil {
		return err
	}
	err := r.dir.Rename(from, to)
	if err != nil {
		_ = r.dir.Mkdir(to, old.Mode().Perm()) // the first error is returned
	}
	return err
}

// moveFailed returns the coded error for a failed rename.
func (r *Root) moveFailed(from, to string, err error) error {
	switch {
	case errors.Is(err, syscall.EXDEV):
		return fault.Wrap(fault.Conflict, err, r.Abs(to)+" lies on another file system than "+r.Abs(from)).
			WithReason("CROSS_DEVICE").WithHint("copy the content, then delete the source")
	case errors.Is(err, fs.ErrNotExist): // the source existed a moment ago: probably the parent of to is missing
		return fault.Wrap(fault.NotFound, err, r.Abs(from)+", or the directory of "+r.Abs(to)+", does not exist")
	default:
		return r.fail(to, err)
	}
}

// syncDirs makes the entries of directories durable.
func (r *Root) syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := r.syncDir(dir); err != nil {
			return r.fail(dir, err)
		}
	}
	return nil
}

// checkNoHidden returns PROTECTED_PATH if rel is a hidden directory or contains one.
func (r *Root) checkNoHidden(rel string) error {
	for _, dir := range r.hidden {
		if rel == "." || dir == rel || strings.HasPrefix(dir, rel+"/") {
			return fault.New(fault.ProtectedPath, "%s holds what belongs to the node itself", r.Abs(rel))
		}
	}
	return nil
}

// RemoveFile removes a file or a link. It returns INVALID_FORMAT for a directory.
func (r *Root) RemoveFile(rel string) error {
	p, name, err := r.parent(rel)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.removeFile(name)
}

func (r *Root) removeFile(rel string) error {
	info, err := r.Lstat(rel)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return r.fail(rel, syscall.EISDIR)
	}
	if err := r.Remove(rel); err != nil {
		return err
	}
	return r.syncDirs(filepath.Dir(rel))
}

// Append appends data to an existing file and syncs it. Appends of concurrent writers do not mix (S4-031). It returns
// the new size of the file in bytes.
func (r *Root) Append(rel string, data []byte) (int64, error) {
	p, name, err := r.parent(rel)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	f, err := p.OpenAppend(name)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	info, statErr := f.Stat()
	if err = cmp.Or(err, statErr, f.Close()); err != nil {
		return 0, r.fail(rel, err)
	}
	return info.Size(), nil
}
