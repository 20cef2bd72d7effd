package pathguard

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// Tree is a directory and a listing of its content. It can be archived and then removed. Files that were added or
// changed since the listing are not removed, because the archive does not contain them.
type Tree struct {
	root *Root
	rel  string
	// dir is the opened directory: links in it cannot lead out of it.
	dir     *os.Root
	entries []treeEntry // directories precede their content
}

// treeEntry is a file, link or directory below the tree's directory.
type treeEntry struct {
	name string
	info fs.FileInfo
}

// Tree opens the directory rel and lists its content. The caller must close it. Unlike Walk it returns an error when an
// entry cannot be read. It returns PROTECTED_PATH when the directory contains a hidden one.
func (r *Root) Tree(ctx context.Context, rel string) (*Tree, error) {
	if err := r.checkNoHidden(rel); err != nil {
		return nil, err
	}
	dir, err := r.openDir(rel)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: r, rel: rel, dir: dir}
	if err := t.list(ctx); err != nil {
		return nil, errors.Join(t.fail(".", err), dir.Close())
	}
	return t, nil
}

// openDir opens a directory without following a link at rel. It returns CONFLICT if the directory is replaced
// meanwhile.
func (r *Root) openDir(rel string) (*os.Root, error) {
	seen, err := r.Lstat(rel)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, invalid("%s is not a directory", r.Abs(rel))
	}
	dir, err := r.dir.OpenRoot(rel)
	if err != nil {
		return nil, r.fail(rel, err)
	}
	if now, err := dir.Stat("."); err != nil || !os.SameFile(now, seen) {
		return nil, errors.Join(cmp.Or(r.fail(rel, err), error(changed(r.Abs(rel)))), dir.Close())
	}
	return dir, nil
}

// Empty removes everything in the directory rel except the entries in keep. It does not follow links.
func (r *Root) Empty(rel string, keep ...string) error {
	dir, err := r.openDir(rel)
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			err = errors.Join(err, dir.RemoveAll(e.Name()))
		}
	}
	return r.fail(rel, errors.Join(err, dir.Close()))
}

// list lists the content of the directory.
func (t *Tree) list(ctx context.Context) error {
	return fs.WalkDir(t.dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err = cmp.Or(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		if t.root.Lacks(join(t.rel, name)) {
			return t.root.absentError(t.rel)
		}
		info, err := entry.Info()
		t.entries = append(t.entries, treeEntry{name, info})
		return err
	})
}

// Close releases the directory.
func (t *Tree) Close() error { return t.dir.Close() }

// Empty reports whether the directory was empty.
func (t *Tree) Empty() bool { return len(t.entries) == 0 }

// Remove removes the directory and the content that Tree listed. It returns CONFLICT when the content has changed
// since: new and changed files then stay, with the directories that contain them. If a change is found before the first
// removal, everything stays.
func (t *Tree) Remove(ctx context.Context) error {
	for _, e := range t.entries {
		if err := cmp.Or(ctx.Err(), t.checkUnchanged(e)); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(t.entries) {
		err := ctx.Err()
		if err == nil && !e.info.IsDir() {
			err = t.checkUnchanged(e)
		}
		if err = cmp.Or(err, t.dir.Remove(e.name)); err != nil {
			return t.fail(e.name, err)
		}
	}
	if err := t.root.Remove(t.rel); err != nil {
		return err
	}
	return t.root.syncDirs(filepath.Dir(t.rel))
}

// checkUnchanged returns CONFLICT if e has changed since it was listed. The modification time of a directory is
// ignored.
func (t *Tree) checkUnchanged(e treeEntry) error {
	now, err := t.dir.Lstat(e.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return t.fail(e.name, err)
	case err != nil, !os.SameFile(now, e.info), now.Mode() != e.info.Mode():
		return t.changed(e.name)
	case !now.IsDir() && (now.Size() != e.info.Size() || !now.ModTime().Equal(e.info.ModTime())):
		return t.changed(e.name)
	default:
		return nil
	}
}

func (t *Tree) changed(name string) error { return changed(t.root.Abs(path.Join(t.rel, name))) }

func changed(file string) *fault.Error {
	return fault.New(fault.Conflict, "%s has changed meanwhile", file)
}

// fail returns the coded error for an error about an entry of the directory.
func (t *Tree) fail(name string, err error) error { return t.root.fail(path.Join(t.rel, name), err) }
