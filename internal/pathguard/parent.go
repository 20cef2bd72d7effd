package pathguard

import (
	"path/filepath"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// parent opens the directory of rel as a Root, and returns the name of rel in it. The caller must close it. rel is a
// real path. os.Root follows links inside of the root, so a link in rel was created after the path was checked: parent
// returns CONFLICT.
func (r *Root) parent(rel string) (*Root, string, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, "", err
	}
	at := filepath.Dir(rel)
	dir, err := r.dir.OpenRoot(at)
	if err != nil {
		if info, statErr := r.dir.Stat(at); statErr == nil && !info.IsDir() {
			err = syscall.ENOTDIR // os.Root has its own error for it
		}
		return nil, "", r.fail(at, err)
	}
	p := &Root{dir: dir, name: r.Abs(at), escape: r.escape}
	base, here := currentPath(r.dir), currentPath(dir)
	if base != "" && here != filepath.Join(base, at) {
		_ = dir.Close() // nothing was written
		return nil, "", fault.New(fault.Conflict, "%s leads elsewhere now than when it was resolved", p.name)
	}
	return p, filepath.Base(rel), nil
}
