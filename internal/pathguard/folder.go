package pathguard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// nameBatch is how many names of a directory are read at a time.
const nameBatch = 1024

// Folder is an open directory, for reading. No operation follows a link: a link in a path is an error, and so is a part of
// the path that is replaced meanwhile. Errors name paths relative to the folder that Root.Folder opened.
type Folder struct {
	root *Root
	dir  *os.Root
	// rel is the path of the folder relative to the root, shown its path in messages.
	rel, shown string
}

// Folder opens the directory rel. The caller must close it. Links in the parents of rel are followed, a link at rel itself
// is refused.
func (r *Root) Folder(rel string) (*Folder, error) {
	dir, err := r.openDir(rel)
	if err != nil {
		return nil, err
	}
	return &Folder{root: r, dir: dir, rel: rel}, nil
}

// Close releases the directory.
func (f *Folder) Close() error { return f.dir.Close() }

// Abs returns the absolute path of an entry of the folder.
func (f *Folder) Abs(name string) string { return f.root.Abs(join(f.rel, name)) }

// Folder opens the folder at a path below f, name by name: none of them may be a link. An empty path is f itself. The caller
// must close the result.
func (f *Folder) Folder(path string) (*Folder, error) {
	at, err := f.dir.OpenRoot(".")
	if err != nil {
		return nil, f.fail("", err)
	}
	in := &Folder{root: f.root, dir: at, rel: f.rel, shown: f.shown}
	for path != "" {
		name, rest, _ := strings.Cut(path, "/")
		next, err := in.enter(name)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		in, path = next, rest
	}
	return in, nil
}

// enter opens a folder in f.
func (f *Folder) enter(name string) (*Folder, error) {
	seen, err := f.Lstat(name)
	if err != nil {
		return nil, err
	}
	at := f.below(name)
	switch {
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, errLink(at)
	case !seen.IsDir():
		return nil, invalid("%s is not a folder", at)
	}
	dir, err := f.dir.OpenRoot(name)
	if err != nil {
		return nil, f.fail(name, err)
	}
	if now, err := dir.Stat("."); err != nil || !os.SameFile(now, seen) {
		return nil, errors.Join(cmp.Or(f.fail(name, err), error(changed(at))), dir.Close())
	}
	return &Folder{root: f.root, dir: dir, rel: join(f.rel, name), shown: at}, nil
}

// errLink returns the error for a path that leads through a link.
func errLink(at string) *fault.Error {
	return invalid("%s is a link, and links are not followed", at)
}

// below returns the path of an entry for messages.
func (f *Folder) below(name string) string {
	if f.shown == "" {
		return cmp.Or(name, "the folder")
	}
	return strings.TrimSuffix(f.shown+"/"+name, "/")
}

func (f *Folder) fail(name string, err error) error {
	if err != nil && errors.Is(err, f.root.escape) {
		return errLink(f.below(name))
	}
	return describe(f.below(name), err)
}

// hides reports whether an entry belongs to a hidden directory of the root.
func (f *Folder) hides(name string) bool { return f.root.hides(join(f.rel, name)) }

// Lstat describes an entry of the folder, and does not follow a link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	if f.hides(name) {
		return nil, f.fail(name, fs.ErrNotExist)
	}
	info, err := f.dir.Lstat(name)
	return info, f.fail(name, err)
}

// Readlink returns the target of a link.
func (f *Folder) Readlink(name string) (string, error) {
	target, err := f.dir.Readlink(name)
	return target, f.fail(name, err)
}

// Names returns the first limit names of the folder that sort after a name, and whether there are more. It reads all names of
// the folder, but holds only a bounded number of them in memory.
func (f *Folder) Names(ctx context.Context, after string, limit int) (names []string, more bool, err error) {
	d, err := f.dir.Open(".")
	if err != nil {
		return nil, false, f.fail("", err)
	}
	defer d.Close()
	for {
		batch, err := d.Readdirnames(nameBatch)
		for _, name := range batch {
			if name > after && !f.hides(name) {
				names = append(names, name)
			}
		}
		if len(names) > 2*limit+nameBatch {
			names = firstNames(names, limit+1)
		}
		switch {
		case errors.Is(err, io.EOF):
			names = firstNames(names, limit+1)
			return names[:min(len(names), limit)], len(names) > limit, nil
		case cmp.Or(err, ctx.Err()) != nil:
			return nil, false, f.fail("", cmp.Or(err, ctx.Err()))
		}
	}
}

// firstNames returns the first n names in the order of their bytes.
func firstNames(names []string, n int) []string {
	slices.Sort(names)
	return names[:min(len(names), n)]
}

// Open opens a regular file of the folder for reading. It does not open pipes and devices. For a link, a folder or a special
// file it returns INVALID_FORMAT with the reason INVALID_PATH.
func (f *Folder) Open(name string) (*os.File, fs.FileInfo, error) {
	seen, err := f.Lstat(name)
	if err == nil {
		err = checkRegular(seen, f.below(name))
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := f.dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, f.fail(name, err)
	}
	now, err := file.Stat()
	switch {
	case err != nil:
		err = f.fail(name, err)
	case !os.SameFile(now, seen):
		err = changed(f.below(name))
	default:
		return file, now, nil
	}
	return nil, nil, errors.Join(err, file.Close())
}

// checkRegular returns why a file cannot be read as one; nil for a regular file.
func checkRegular(info fs.FileInfo, at string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errLink(at)
	case info.IsDir():
		return describe(at, syscall.EISDIR)
	case !info.Mode().IsRegular():
		return irregular(at)
	}
	return nil
}
