package pathguard

import (
	"path/filepath"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// parent opens the directory that rel lies in, as a root of its own, and returns the name of rel in it. os.Root follows
// the links inside of the root; rel is a real path, so a link on the way was put there after it was resolved, and what
// was judged is not what would be changed: CONFLICT. The caller closes it.
func (r *Root) parent(rel string) (*Root, string, error) {
	if err := r.sees(rel); err != nil {
		return nil, "", err
	}
	at := filepath.Dir(rel)
	dir, err := r.dir.OpenRoot(at)
	if err != nil {
		if info, statErr := r.dir.Stat(at); statErr == nil && !info.IsDir() {
			err = syscall.ENOTDIR // which os.Root says in a word of its own
		}
		return nil, "", r.fail(at, err)
	}
	p := &Root{dir: dir, name: r.Abs(at), escape: r.escape}
	base, here := place(r.dir), place(dir)
	if base != "" && here != filepath.Join(base, at) {
		_ = dir.Close() // nothing was written
		return nil, "", fault.New(fault.Conflict, "%s leads elsewhere now than when it was resolved", p.name)
	}
	return p, filepath.Base(rel), nil
}
