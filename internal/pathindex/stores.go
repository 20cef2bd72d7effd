package pathindex

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contents are the names in a git repository under which contents of files lie: what was committed or staged, what LFS and
// annex keep, conflicts that were resolved, patches of a rebase or of an editor, and what fsck has found.
func contents() []string {
	return []string{
		"objects", "lfs", "annex", "rr-cache", "rebase-apply", "rebase-merge", "lost-found", "NOTES_MERGE_WORKTREE",
		"COMMIT_EDITMSG", "NOTES_EDITMSG", "TAG_EDITMSG", "ADD_EDIT.patch", "addp-hunk-edit.diff",
	}
}

// plain are the names in a .git that hold no contents: where branches are, what was configured, the names of files. Anything
// else may be what an editor or another program has left.
func plain() []string {
	return []string{
		"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "MERGE_MODE", "MERGE_MSG",
		"MERGE_RR", "SQUASH_MSG", "refs", "packed-refs", "reftable", "logs", "config", "config.worktree", "description", "hooks", "info", "index",
		"branches", "commondir", "gitdir", "locked", "shallow", "worktrees", "modules", "sequencer",
	}
}

// others are the folders in which other systems keep versions of files.
func others() []string { return []string{".hg", ".svn", ".jj", ".bzr", "_darcs", ".pijul"} }

// stores returns which names in the folder path hold contents of the files of a repository.
func stores(path string, names []string) []string {
	closed := closes(path, func(name string) bool { return slices.Contains(names, name) })
	var found []string
	for _, name := range names {
		if closed(name) {
			found = append(found, name)
		}
	}
	return found
}

// closes returns which names in a folder that has some names hold contents of the files of a repository. In a bare one
// there may be work trees as well.
func closes(path string, has func(name string) bool) func(name string) bool {
	switch {
	case !repository(path, has):
		return func(name string) bool { return slices.Contains(others(), name) }
	case slices.Contains(strings.Split(path, string(filepath.Separator)), ".git"):
		return func(name string) bool { return !slices.Contains(plain(), strings.TrimSuffix(name, ".lock")) }
	default:
		return func(name string) bool { return slices.Contains(contents(), name) || slices.Contains(others(), name) }
	}
}

// repository reports whether a folder that has some names is a git repository. One that is called .git stays one
// whatever somebody takes out of it.
func repository(path string, has func(name string) bool) bool {
	return filepath.Base(path) == ".git" || has("HEAD") && (has("objects") || has("commondir"))
}

// Stored reports whether path is a folder in which the contents of a repository lie, or lies in one. In the
// directories that the index skips there are none.
func (x *Index) Stored(path string) bool {
	rel, err := filepath.Rel(x.dir, path)
	if err != nil || !filepath.IsLocal(rel) || slices.ContainsFunc(x.skip, func(dir string) bool { return path == dir || strings.HasPrefix(path, join(dir, "")) }) {
		return false
	}
	at := x.dir
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if name != "." && closes(at, func(name string) bool { return there(join(at, name)) })(name) {
			return true
		}
		at = join(at, name)
	}
	return false
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
