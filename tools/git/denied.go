package git

import (
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// A repository holds the contents of files that a call must not reach. git reads them for a call, since the programs that
// it runs are those of this package, so the package keeps their names and contents from what it returns.

// maxDenied bounds the changed files that are left out of one diff.
const maxDenied = 1000

// borrowed refuses a work tree in the workspace of the task whose repository lies elsewhere: the names in that repository
// are those of another work tree, so nobody could tell which of them the call must not reach.
func (r *repository) borrowed() error {
	own := func(path string) bool { return within(path, r.env.Workspace) }
	if !r.env.Root.Narrowed() || !own(r.top) || !slices.ContainsFunc(r.stores, func(place string) bool { return !own(place) }) {
		return nil
	}
	return fault.New(fault.ProtectedPath, "the repository of the work tree %s lies outside of the workspace of the task", r.top).
		WithField("repository_path").WithHint("name the work tree that the repository belongs to")
}

// denies reports whether the call must not reach a file of the repository: in this work tree, or in the one that the
// repository belongs to.
func (r *repository) denies(name string) bool {
	for _, top := range append([]string{r.top}, r.mains()...) {
		rel, err := filepath.Rel(r.env.Root.Name(), filepath.Join(top, name))
		if err == nil && filepath.IsLocal(rel) && r.env.Root.Lacks(rel) {
			return true
		}
	}
	return false
}

// mains returns the work trees in which the repository lies.
func (r *repository) mains() []string {
	var tops []string
	for _, place := range r.stores {
		if filepath.Base(place) == ".git" {
			tops = append(tops, filepath.Dir(place))
		}
	}
	return tops
}

// reachable returns the names without those that the call must not reach.
func (r *repository) reachable(names []string) []string {
	return slices.DeleteFunc(names, r.denies)
}

// clear takes out of a status what the call must not reach.
func (o *gitStatusOut) clear(r *repository) {
	denies := func(c change) bool { return r.denies(c.Path) || c.OldPath != "" && r.denies(c.OldPath) }
	o.Staged, o.Unstaged = slices.DeleteFunc(o.Staged, denies), slices.DeleteFunc(o.Unstaged, denies)
	o.Untracked = r.reachable(o.Untracked)
}
