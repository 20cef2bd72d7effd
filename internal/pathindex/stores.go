package pathindex

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contents are the names in a git repository under which contents of files lie: what was committed or staged, what LFS
// keeps, conflicts that were resolved, and the patches of a rebase.
func contents() []string {
	return []string{"objects", "lfs", "rr-cache", "rebase-apply", "rebase-merge"}
}

// stores returns which names in the folder path hold the contents of a git repository, if it is one.
func stores(path string, names []string) []string {
	has := func(name string) bool { return slices.Contains(names, name) }
	if !repository(path, has) {
		return nil
	}
	return slices.DeleteFunc(contents(), func(name string) bool { return !has(name) })
}

// repository reports whether a folder that has some names is a git repository. One that is called .git stays one
// whatever somebody takes out of it.
func repository(path string, has func(name string) bool) bool {
	return filepath.Base(path) == ".git" || has("HEAD") && (has("objects") || has("commondir"))
}

// Stored reports whether path is a folder in which the contents of a git repository lie, or lies in one. In the
// directories that the index skips there are none.
func (x *Index) Stored(path string) bool {
	rel, err := filepath.Rel(x.dir, path)
	if err != nil || !filepath.IsLocal(rel) || slices.ContainsFunc(x.skip, func(dir string) bool { return path == dir || strings.HasPrefix(path, join(dir, "")) }) {
		return false
	}
	at := x.dir
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if slices.Contains(contents(), name) && repository(at, func(name string) bool { return there(join(at, name)) }) {
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
