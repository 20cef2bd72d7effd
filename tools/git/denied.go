package git

import (
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// A repository stores the contents of all its files, including files that the call must not access (denied files). Git
// can read all of them during a call. Only this package runs git in that way, so it removes the names and contents of
// denied files from results.

// maxDenied limits the changed files that are excluded from one diff.
const maxDenied = 1000

// checkGitDirs rejects a work tree in the workspace of the task if its repository lies outside of the workspace. The
// file names in that repository belong to another work tree, so the denied files among them cannot be determined.
func (r *repository) checkGitDirs() error {
	own := func(path string) bool { return isWithin(path, r.env.Workspace) }
	if !r.env.Root.Narrowed() || !own(r.top) || !slices.ContainsFunc(r.gitDirs, func(dir string) bool { return !own(dir) }) {
		return nil
	}
	return fault.New(fault.ProtectedPath, "the repository of the work tree %s lies outside of the workspace of the task", r.top).
		WithField("repository_path").WithHint("name the work tree that the repository belongs to")
}

// denies reports whether the call must not access a file of the repository: in this work tree, or in the main work
// tree of the repository.
func (r *repository) denies(name string) bool {
	for _, top := range append([]string{r.top}, r.mainWorkTrees()...) {
		rel, err := filepath.Rel(r.env.Root.Name(), filepath.Join(top, name))
		if err == nil && filepath.IsLocal(rel) && r.env.Root.Lacks(rel) {
			return true
		}
	}
	return false
}

// mainWorkTrees returns the work trees that contain the directories of the repository.
func (r *repository) mainWorkTrees() []string {
	var tops []string
	for _, dir := range r.gitDirs {
		if filepath.Base(dir) == ".git" {
			tops = append(tops, filepath.Dir(dir))
		}
	}
	return tops
}

// withoutDenied returns the names without those of denied files.
func (r *repository) withoutDenied(names []string) []string {
	return slices.DeleteFunc(names, r.denies)
}

// removeDenied removes denied files from a status.
func (o *gitStatusOut) removeDenied(r *repository) {
	denies := func(c change) bool { return r.denies(c.Path) || c.OldPath != "" && r.denies(c.OldPath) }
	o.Staged, o.Unstaged = slices.DeleteFunc(o.Staged, denies), slices.DeleteFunc(o.Unstaged, denies)
	o.Untracked = r.withoutDenied(o.Untracked)
}
