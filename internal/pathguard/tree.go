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

// Tree is a directory with all that was in it when it was looked at. It can be archived, and removed as
// far as it has not changed since, so that nothing goes that is not in the archive.
type Tree struct {
	root *Root
	rel  string
	// dir is the directory itself: links that somebody puts into it cannot lead out of it.
	dir     *os.Root
	entries []treeEntry
}

// treeEntry is a file, link or directory below the tree's directory; directories come before what is in
// them.
type treeEntry struct {
	name string
	info fs.FileInfo
}

// Tree looks at the directory rel and all that is in it. It has to be closed after use. Unlike Walk it
// fails when something cannot be read; PROTECTED_PATH when a hidden directory lies in it.
func (r *Root) Tree(ctx context.Context, rel string) (*Tree, error) {
	if err := r.holdsHidden(rel); err != nil {
		return nil, err
	}
	dir, err := r.openDir(rel)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: r, rel: rel, dir: dir}
	if err := t.look(ctx); err != nil {
		return nil, errors.Join(t.fail(".", err), dir.Close())
	}
	return t, nil
}

// openDir opens a directory, and never one that a link leads to.
func (r *Root) openDir(rel string) (*os.Root, error) {
	seen, err := r.Lstat(rel)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, invalid("%s is no directory", r.Abs(rel))
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

// Empty removes everything in the directory rel but the entries of the names given. It does not follow
// links.
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

// look lists what is in the directory.
func (t *Tree) look(ctx context.Context) error {
	return fs.WalkDir(t.dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err = cmp.Or(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		if t.root.Lacks(join(t.rel, name)) {
			return t.root.veiled(t.rel)
		}
		info, err := entry.Info()
		t.entries = append(t.entries, treeEntry{name, info})
		return err
	})
}

// Close releases the directory.
func (t *Tree) Close() error { return t.dir.Close() }

// Empty reports whether there is nothing in the directory.
func (t *Tree) Empty() bool { return len(t.entries) == 0 }

// Remove removes the directory with all that Tree has seen in it. CONFLICT when something has changed
// since: then what is new or has changed stays, and with it the directories that it lies in. When that is
// so before the first removal, everything stays.
func (t *Tree) Remove(ctx context.Context) error {
	for _, e := range t.entries {
		if err := cmp.Or(ctx.Err(), t.unchanged(e)); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(t.entries) {
		err := ctx.Err()
		if err == nil && !e.info.IsDir() {
			err = t.unchanged(e)
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

// unchanged is CONFLICT unless e is what it was. The time of a directory does not count: its files do.
func (t *Tree) unchanged(e treeEntry) error {
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

// fail gives an error about something in the directory its code.
func (t *Tree) fail(name string, err error) error { return t.root.fail(path.Join(t.rel, name), err) }
