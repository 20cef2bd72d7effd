package pathguard

import (
	"io/fs"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// Without returns a view of the root without the paths for which hides returns true. In the view these paths are
// absent: they cannot be resolved, opened, listed, walked, created, or moved with their folder. Paths are relative to
// the root. If hides returns true for a path, it must do so for all paths below. The view can be used until the root is
// closed. The view itself must not be closed.
func (r *Root) Without(hides func(rel string) bool) *Root {
	view := *r
	view.excludes = hides
	if outer := r.excludes; outer != nil {
		view.excludes = func(rel string) bool { return outer(rel) || hides(rel) }
	}
	return &view
}

// Narrowed reports whether this is a view in which paths may be absent.
func (r *Root) Narrowed() bool { return r.excludes != nil }

// Lacks reports whether a path, as Resolve returns it, is absent in this view.
func (r *Root) Lacks(rel string) bool { return r.excludes != nil && r.excludes(rel) }

// checkPresent returns NOT_FOUND for a path that is absent in this view.
func (r *Root) checkPresent(rel string) error {
	if r.Lacks(rel) {
		return describe(r.Abs(rel), syscall.ENOENT)
	}
	return nil
}

// presentEntries returns the entries of the directory rel that exist in this view.
func (r *Root) presentEntries(rel string, entries []fs.DirEntry) []fs.DirEntry {
	if r.excludes == nil {
		return entries
	}
	kept := entries[:0]
	for _, e := range entries {
		if at := join(rel, e.Name()); !r.hides(at) && !r.excludes(at) {
			kept = append(kept, e)
		}
	}
	return kept
}

// checkNoAbsent returns PROTECTED_PATH if a path below rel is absent in this view.
func (r *Root) checkNoAbsent(rel string) error {
	if r.excludes == nil {
		return nil
	}
	return fs.WalkDir(r.dir.FS(), rel, func(at string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case r.excludes(at):
			return r.absentError(rel)
		}
		return nil
	})
}

// absentError returns the error for a directory that contains absent paths.
func (r *Root) absentError(rel string) error {
	return fault.New(fault.ProtectedPath, "%s contains files that this call may not access", r.Abs(rel)).
		WithHint("move or delete the files that you see in it by name")
}

// join is filepath.Join for a clean directory and a name.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
