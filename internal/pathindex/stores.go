package pathindex

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contentNames returns the names in a git repository that contain contents of files: committed and staged objects,
// objects of LFS and annex, resolved conflicts, patches of a rebase or of an editor, and objects found by fsck.
func contentNames() []string {
	return []string{
		"objects", "lfs", "annex", "rr-cache", "rebase-apply", "rebase-merge", "lost-found", "NOTES_MERGE_WORKTREE",
		"COMMIT_EDITMSG", "NOTES_EDITMSG", "TAG_EDITMSG", "ADD_EDIT.patch", "addp-hunk-edit.diff",
	}
}

// metadataNames returns the names in a .git folder that contain no contents of files: refs, configuration, the names of
// files. Any other name may be a leftover of an editor or another program.
func metadataNames() []string {
	return []string{
		"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "MERGE_MODE", "MERGE_MSG",
		"MERGE_RR", "SQUASH_MSG", "refs", "packed-refs", "reftable", "logs", "config", "config.worktree", "description", "hooks", "info", "index",
		"branches", "commondir", "gitdir", "locked", "shallow", "worktrees", "modules", "sequencer",
	}
}

// otherSystems returns the folders in which version control systems except git store files.
func otherSystems() []string { return []string{".hg", ".svn", ".jj", ".bzr", "_darcs", ".pijul"} }

// stores returns the names in the folder path that contain file contents of a repository.
func stores(path string, names []string) []string {
	isStore := storePredicate(path, func(name string) bool { return slices.Contains(names, name) })
	var found []string
	for _, name := range names {
		if isStore(name) {
			found = append(found, name)
		}
	}
	return found
}

// storePredicate returns a predicate for the names in the folder path that contain file contents of a repository. In a
// .git folder and below these are all names except metadataNames. In a repository elsewhere, which is bare, they are
// only the known names, because such a folder may also contain work trees.
func storePredicate(path string, has func(name string) bool) func(name string) bool {
	switch {
	case !repository(path, has):
		return func(name string) bool { return slices.Contains(otherSystems(), name) }
	case slices.Contains(strings.Split(path, string(filepath.Separator)), ".git"):
		return func(name string) bool { return !slices.Contains(metadataNames(), strings.TrimSuffix(name, ".lock")) }
	default:
		return func(name string) bool {
			return slices.Contains(contentNames(), name) || slices.Contains(otherSystems(), name)
		}
	}
}

// repository reports whether a folder is a git repository. A folder with the name .git always counts, even if files are
// missing.
func repository(path string, has func(name string) bool) bool {
	return filepath.Base(path) == ".git" || has("HEAD") && (has("objects") || has("commondir"))
}

// Stored reports whether path belongs to the file contents of a repository: it is a name that stores returns, or is
// below one. It returns false for paths in skipped directories.
func (x *Index) Stored(path string) bool {
	rel, err := filepath.Rel(x.dir, path)
	if err != nil || !filepath.IsLocal(rel) || slices.ContainsFunc(x.skip, func(dir string) bool { return path == dir || strings.HasPrefix(path, join(dir, "")) }) {
		return false
	}
	at := x.dir
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if name != "." && storePredicate(at, func(name string) bool { return exists(join(at, name)) })(name) {
			return true
		}
		at = join(at, name)
	}
	return false
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
