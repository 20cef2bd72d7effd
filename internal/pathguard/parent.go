package pathguard

import (
	"path/filepath"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// parent opens the directory of rel as a Root, and returns the name of rel in that directory. The caller must close the
// Root. rel must be a real path. If it contains a link now, the link was created after the path was checked: parent
// returns CONFLICT, because os.Root would follow a link inside of the root.
func (r *Root) parent(rel string) (*Root, string, error) {
	if err := r.checkPresent(rel); err != nil {
		return nil, "", err
	}
	at := filepath.Dir(rel)
	dir, err := r.dir.OpenRoot(at)
	if err != nil {
		if info, statErr := r.dir.Stat(at); statErr == nil && !info.IsDir() {
			err = syscall.ENOTDIR // os.Root returns an error of its own here
		}
		return nil, "", r.fail(at, err)
	}
	p := &Root{dir: dir, name: r.Abs(at), escape: r.escape}
	base, here := currentPath(r.dir), currentPath(dir)
	if base != "" && here != filepath.Join(base, at) {
		_ = dir.Close() // a failed close loses nothing
		return nil, "", fault.New(fault.Conflict, "%s leads elsewhere now than when it was resolved", p.name)
	}
	return p, filepath.Base(rel), nil
}
