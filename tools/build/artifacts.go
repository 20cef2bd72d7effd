package build

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// fileStamp detects a change of a file.
type fileStamp struct {
	size     int64
	modified time.Time
}

// stampFiles returns the regular files of the project by absolute path. It skips the internal directories of package
// managers and of git, and the directory of all workspaces if it lies in the project.
func (p project) stampFiles(ctx context.Context) (map[string]fileStamp, error) {
	found := map[string]fileStamp{}
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
			found[p.env.Root.Abs(filepath.Clean(at))] = fileStamp{info.Size(), info.ModTime()}
		}
		return nil // a file that was just removed is not an artifact
	})
}

// changedFiles returns the new and changed files, sorted, at most maxMessages of them. It modifies after.
func changedFiles(before, after map[string]fileStamp) []string {
	maps.DeleteFunc(after, func(path string, s fileStamp) bool { return before[path] == s })
	paths := slices.Sorted(maps.Keys(after))
	return append([]string{}, paths[:min(len(paths), maxMessages)]...)
}
