package pathguard

import (
	"io/fs"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// Without returns a view of the root in which those paths do not exist, relative to the root, for which hides returns
// true: they cannot be resolved, opened, listed, walked, made or taken along. What lies below a path for which it
// returns true has to be hidden as well. The view lives as long as the root and is not closed.
func (r *Root) Without(hides func(rel string) bool) *Root {
	view := *r
	view.veil = hides
	if outer := r.veil; outer != nil {
		view.veil = func(rel string) bool { return outer(rel) || hides(rel) }
	}
	return &view
}

// Narrowed reports whether this is a view in which something may not exist.
func (r *Root) Narrowed() bool { return r.veil != nil }

// Lacks reports whether a path, as Resolve returns it, does not exist in this view of the root.
func (r *Root) Lacks(rel string) bool { return r.veil != nil && r.veil(rel) }

// sees is NOT_FOUND for a path that does not exist in this view.
func (r *Root) sees(rel string) error {
	if r.Lacks(rel) {
		return describe(r.Abs(rel), syscall.ENOENT)
	}
	return nil
}

// seen returns the entries of the directory rel that exist in this view.
func (r *Root) seen(rel string, entries []fs.DirEntry) []fs.DirEntry {
	if r.veil == nil {
		return entries
	}
	kept := entries[:0]
	for _, e := range entries {
		if at := join(rel, e.Name()); !r.hides(at) && !r.veil(at) {
			kept = append(kept, e)
		}
	}
	return kept
}

// holdsVeiled is PROTECTED_PATH when something that does not exist in this view lies below rel.
func (r *Root) holdsVeiled(rel string) error {
	if r.veil == nil {
		return nil
	}
	return fs.WalkDir(r.dir.FS(), rel, func(at string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case r.veil(at):
			return r.veiled(rel)
		}
		return nil
	})
}

func (r *Root) veiled(rel string) error {
	return fault.New(fault.ProtectedPath, "%s holds what is out of the reach of this call", r.Abs(rel)).
		WithHint("move or delete what you see of it by name")
}

// join is filepath.Join for a clean directory and a name.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
