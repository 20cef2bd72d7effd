package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Dir is a store in a directory. Its objects are files that only their owner can read.
type Dir struct {
	path string
	root *os.Root
}

var _ Store = (*Dir)(nil)

const (
	// partPrefix is the prefix of the names of files that are being written.
	partPrefix = ".part-"
	// partAge is the age above which such a file is a leftover of a process that was killed.
	partAge = 24 * time.Hour
)

// OpenDir opens a directory, which it creates if create is set. Errors: NOT_FOUND, FORBIDDEN.
func OpenDir(dir string, create bool) (*Dir, error) {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, dirFault(err, dir)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, dirFault(err, dir)
	}
	return &Dir{dir, root}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// String implements Store.
func (d *Dir) String() string { return d.path }

// Put implements Store. The file and its name are durable when it returns.
func (d *Dir) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, _ []byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	folder := path.Dir(key)
	if err := d.root.MkdirAll(folder, 0o700); err != nil {
		return d.fault(err, key)
	}
	d.sweep(folder)
	part := path.Join(folder, partPrefix+rand.Text())
	if err := d.write(ctx, part, body, size); err != nil {
		_ = d.root.Remove(part) // a leftover is removed later
		return d.fault(err, key)
	}
	if err := d.root.Rename(part, key); err != nil {
		return d.fault(err, key)
	}
	for at := folder; ; at = path.Dir(at) { // the folders may be new
		if err := d.sync(at); err != nil {
			return d.fault(err, key)
		}
		if at == "." {
			return nil
		}
	}
}

// write writes a file and makes it durable.
func (d *Dir) write(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, cancelled{ctx, body})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx  context.Context //nolint:containedctx // of one copy
	from io.Reader
}

// Read implements io.Reader.
func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.from.Read(p)
}

func (d *Dir) sync(folder string) error {
	f, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// sweep removes what processes that were killed have left in a folder.
func (d *Dir) sweep(folder string) {
	entries, err := fs.ReadDir(d.root.FS(), folder)
	if err != nil {
		return // the write shows the error
	}
	for _, e := range entries {
		if info, err := e.Info(); strings.HasPrefix(e.Name(), partPrefix) && err == nil && time.Since(info.ModTime()) > partAge {
			_ = d.root.Remove(path.Join(folder, e.Name()))
		}
	}
}

// Get implements Store.
func (d *Dir) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	info, err := d.root.Lstat(key)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fault.New(fault.Forbidden, "%s in %s is not a regular file", key, d.path)
	}
	if err != nil {
		return nil, d.fault(err, key)
	}
	f, err := d.root.Open(key)
	if err != nil {
		return nil, d.fault(err, key)
	}
	if length < 0 {
		length = max(info.Size()-offset, 0)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

// List implements Store.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		folder := "."
		if prefix != "" {
			folder = strings.TrimSuffix(prefix, "/")
			if err := CheckKey(folder); err != nil {
				yield(Object{}, err)
				return
			}
		}
		err := fs.WalkDir(d.root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return fault.From(ctx.Err())
			}
			if err != nil {
				return unless(errors.Is(err, fs.ErrNotExist), err)
			}
			if !e.Type().IsRegular() || !isKey(name) {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return unless(errors.Is(err, fs.ErrNotExist), err)
			}
			if !yield(Object{name, info.Size()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, d.fault(err, prefix))
		}
	}
}

// unless returns nil if an object was removed meanwhile, else err.
func unless(removed bool, err error) error {
	if removed {
		return nil
	}
	return err
}

func (d *Dir) fault(err error, key string) error { return dirFault(err, path.Join(d.path, key)) }

func dirFault(err error, name string) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "there is no %s", name)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.New(fault.DiskFull, "there is no room for %s", name).WithHint("free some space, and do it again")
	default:
		return fault.New(fault.Forbidden, "cannot use %s: %w", name, err)
	}
}
