package fs

import (
	"cmp"
	"io/fs"
	"slices"
	"time"

	"github.com/orch-dev/orch/tools"
)

// newestFiles collects the most recently changed files of a search. It drops older ones early, to bound its memory.
type newestFiles struct {
	files     []datedFile
	truncated bool
}

type datedFile struct {
	rel     string
	modTime time.Time
}

// add adds a regular file, or a link to a regular file inside the root. It ignores all other entries.
func (n *newestFiles) add(env *tools.Env, rel string, d fs.DirEntry) {
	info, err := d.Info()
	if err == nil && d.Type()&fs.ModeSymlink != 0 {
		var target string
		if target, err = env.Root.Resolve(env.Root.Abs(rel)); err == nil {
			info, err = env.Root.Stat(target)
		}
	}
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	n.files = append(n.files, datedFile{rel, info.ModTime()})
	if len(n.files) >= 2*maxEntries {
		n.truncate(maxEntries)
	}
}

// truncate sorts the files, newest first and ties by path, and drops all but the first limit.
func (n *newestFiles) truncate(limit int) {
	slices.SortFunc(n.files, func(a, b datedFile) int {
		return cmp.Or(b.modTime.Compare(a.modTime), cmp.Compare(a.rel, b.rel))
	})
	if len(n.files) > limit {
		n.files, n.truncated = n.files[:limit], true
	}
}
