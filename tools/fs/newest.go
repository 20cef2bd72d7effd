package fs

import (
	"cmp"
	"io/fs"
	"slices"
	"time"

	"github.com/orch-dev/orch/tools"
)

// newestFiles keeps the most recently changed files of a search, and forgets the others soon enough to
// keep its memory bounded.
type newestFiles struct {
	files     []datedFile
	truncated bool
}

type datedFile struct {
	rel string
	at  time.Time
}

// add takes a regular file, or a link to one inside the root.
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
		n.cut(maxEntries)
	}
}

// cut sorts, newest first and ties by path, and keeps the first limit files.
func (n *newestFiles) cut(limit int) {
	slices.SortFunc(n.files, func(a, b datedFile) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.rel, b.rel))
	})
	if len(n.files) > limit {
		n.files, n.truncated = n.files[:limit], true
	}
}
