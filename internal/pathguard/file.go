package pathguard

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// The operations in this file take a path relative to the root, as Resolve returns it.

// Open opens a regular file for reading. For a directory or special file it returns INVALID_FORMAT with reason
// INVALID_PATH.
func (r *Root) Open(rel string) (*os.File, error) {
	f, _, err := r.open(rel, os.O_RDONLY)
	return f, err
}

// OpenAppend opens an existing regular file for appending.
func (r *Root) OpenAppend(rel string) (*os.File, error) {
	f, _, err := r.open(rel, os.O_WRONLY|os.O_APPEND)
	return f, err
}

// open opens an existing regular file and returns its FileInfo. It does not block on a pipe.
func (r *Root) open(rel string, flag int) (*os.File, fs.FileInfo, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, nil, err
	}
	f, err := r.dir.OpenFile(rel, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, r.fail(rel, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = r.fail(rel, err)
	case info.IsDir():
		err = r.fail(rel, syscall.EISDIR)
	case !info.Mode().IsRegular():
		err = irregular(r.Abs(rel))
	default:
		err = r.mayOpen(rel, f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// mayOpen returns an error if the file that was opened as rel is one that the root hides or lacks.
func (r *Root) mayOpen(rel string, f *os.File) error {
	switch opened := r.openedPath(rel, f); {
	case r.hides(opened):
		return fault.New(fault.ProtectedPath, "%s leads to what belongs to the node itself", r.Abs(rel))
	case r.Lacks(opened):
		return r.fail(rel, syscall.ENOENT)
	}
	return nil
}

// openedPath returns the real path, relative to the root, of the file that was opened as rel. The two can differ:
// os.Root follows links inside of the root, and a link may have been created after rel was resolved.
func (r *Root) openedPath(rel string, f *os.File) string {
	if len(r.hidden) == 0 && r.excludes == nil {
		return rel
	}
	at := currentPathOf(f)
	if at == r.Abs(rel) {
		return rel
	}
	if relative, err := filepath.Rel(currentPath(r.dir), at); err == nil {
		return relative
	}
	return rel
}

// ReadFile returns the content of a regular file of at most limit bytes. For a larger file it returns VALIDATION_ERROR
// with reason SIZE_LIMIT_EXCEEDED.
func (r *Root) ReadFile(rel string, limit int64) ([]byte, error) {
	f, info, err := r.open(rel, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := fault.New(fault.ValidationError, "%s is larger than %d bytes", r.Abs(rel), limit).WithReason("SIZE_LIMIT_EXCEEDED")
	if info.Size() > limit {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, r.fail(rel, err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge
	}
	return data, nil
}

// Stat describes the file at rel.
func (r *Root) Stat(rel string) (fs.FileInfo, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, err
	}
	info, err := r.dir.Stat(rel)
	return info, r.fail(rel, err)
}

// Lstat describes the directory entry rel, and does not follow a link.
func (r *Root) Lstat(rel string) (fs.FileInfo, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, err
	}
	info, err := r.dir.Lstat(rel)
	return info, r.fail(rel, err)
}

// ReadDir returns the entries of a directory, sorted by name.
func (r *Root) ReadDir(rel string) ([]fs.DirEntry, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.dir.FS(), rel)
	return r.presentEntries(rel, entries), r.fail(rel, err)
}

// Mkdir creates a directory. Its parent must exist.
func (r *Root) Mkdir(rel string, mode fs.FileMode) error {
	if err := r.checkPresent(rel); err != nil {
		return err
	}
	return r.fail(rel, r.dir.Mkdir(rel, mode))
}

// MkdirAll creates a directory with all missing parents. It returns INVALID_FORMAT with reason INVALID_PATH when an
// element of the path is not a directory.
func (r *Root) MkdirAll(rel string, mode fs.FileMode) error {
	if err := r.checkPresent(rel); err != nil {
		return err
	}
	err := r.dir.MkdirAll(rel, mode)
	if errors.Is(err, fs.ErrExist) {
		err = syscall.ENOTDIR
	}
	return r.fail(rel, err)
}

// Remove removes a file, a link or an empty directory.
func (r *Root) Remove(rel string) error {
	if err := r.checkPresent(rel); err != nil {
		return err
	}
	return r.fail(rel, r.dir.Remove(rel))
}

// RemoveAll removes rel and its content. It does not follow links.
func (r *Root) RemoveAll(rel string) error {
	if err := r.checkPresent(rel); err != nil {
		return err
	}
	return r.fail(rel, r.dir.RemoveAll(rel))
}

// Rename moves a file or directory. It replaces an existing file.
func (r *Root) Rename(from, to string) error {
	if err := cmp.Or(r.checkPresent(from), r.checkPresent(to)); err != nil {
		return err
	}
	return r.fail(from, r.dir.Rename(from, to))
}
