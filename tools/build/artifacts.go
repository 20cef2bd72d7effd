package build

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// stamp is how a file is told from a changed one.
type stamp struct {
	size     int64
	modified time.Time
}

// files returns the regular files of the project, by absolute path. What managers of packages and of
// versions keep to themselves does not count, nor do the workspaces and caches of the node in a root that is built.
func (p project) files(ctx context.Context) (map[string]stamp, error) {
	found := map[string]stamp{}
	rel, err := p.env.Root.Resolve(p.dir)
	if err != nil {
		return nil, err
	}
	workspaces := filepath.Dir(p.env.Workspace)
	return found, p.env.Root.Walk(ctx, rel, func(at string, entry fs.DirEntry) error {
		if entry.IsDir() && p.env.Root.Abs(filepath.Clean(at)) == workspaces {
			return fs.SkipDir
		}
		if entry.IsDir() && slices.Contains([]string{".git", "node_modules", ".venv", "incremental", "deps", ".fingerprint"}, entry.Name()) {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			found[p.env.Root.Abs(filepath.Clean(at))] = stamp{info.Size(), info.ModTime()}
		}
		return nil // a file that has just gone is no artifact
	})
}

// changed returns the new and changed files, sorted.
func changed(before, after map[string]stamp) []string {
	maps.DeleteFunc(after, func(path string, s stamp) bool { return before[path] == s })
	paths := slices.Sorted(maps.Keys(after))
	return append([]string{}, paths[:min(len(paths), maxMessages)]...)
}
