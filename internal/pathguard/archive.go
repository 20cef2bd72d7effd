package pathguard

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// Archive writes the directory and its content as a tar stream with permissions, times, owners and links. The names in
// the stream begin with the last element of the directory's path. It returns CONFLICT when a file was replaced or
// shortened since Tree was called, and INVALID_FORMAT for a socket, which tar cannot represent.
func (t *Tree) Archive(ctx context.Context, w io.Writer) error {
	top, err := t.dir.Stat(".")
	if err != nil {
		return t.fail(".", err)
	}
	out := tar.NewWriter(w)
	for _, e := range append([]treeEntry{{".", top}}, t.entries...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.archive(out, e); err != nil {
			return t.fail(e.name, err)
		}
	}
	return out.Close()
}

// archive writes one entry.
func (t *Tree) archive(out *tar.Writer, e treeEntry) error {
	if e.info.Mode()&fs.ModeSocket != 0 {
		return irregular(t.root.Abs(path.Join(t.rel, e.name)))
	}
	var target string
	if e.info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = t.dir.Readlink(e.name); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(e.info, target)
	if err != nil {
		return err
	}
	header.Name = path.Join(path.Base(t.root.Abs(t.rel)), e.name)
	if e.info.IsDir() {
		header.Name += "/"
	}
	header.Format = tar.FormatPAX // nanosecond times, names of any length
	if err := out.WriteHeader(header); err != nil || !e.info.Mode().IsRegular() {
		return err
	}
	return t.copyFile(out, e)
}

// copyFile writes the content of a file. It returns CONFLICT if the file was replaced or shortened since it was listed.
func (t *Tree) copyFile(out io.Writer, e treeEntry) error {
	f, err := t.dir.OpenFile(e.name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, e.info) {
		return errors.Join(err, t.changed(e.name))
	}
	if _, err := io.CopyN(out, f, e.info.Size()); err != nil {
		if errors.Is(err, io.EOF) {
			return t.changed(e.name)
		}
		return err
	}
	return nil
}

// Create creates a file atomically: the file exists with its whole content or not at all. fill writes the content.
// Create returns CONFLICT when the file exists.
func (r *Root) Create(rel string, mode fs.FileMode, fill func(io.Writer) error) error {
	if err := r.checkPresent(rel); err != nil {
		return err
	}
	if _, err := r.dir.Lstat(rel); err == nil {
		return fault.New(fault.Conflict, "%s exists already", r.Abs(rel))
	}
	temp := tempName(rel)
	if err := r.writeNew(temp, mode, nil, fill); err != nil {
		return r.fail(rel, err)
	}
	if err := r.dir.Rename(temp, rel); err != nil {
		_ = r.dir.Remove(temp) // the first error is returned
		return r.fail(rel, err)
	}
	return r.syncDirs(path.Dir(rel))
}
