package pathguard

import (
	"crypto/rand"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// WriteAtomic replaces or creates the file rel, so that every reader, even after a crash, sees either the old content
// or the new one (S0-037, S4-025). The parent must exist. An existing file must be writable. It keeps its permissions,
// and its owner if the process may set it. A new file gets mode, reduced by the umask. WriteAtomic reports whether the
// file is new. A crash may leave a temporary file .orch-*.tmp.
func (r *Root) WriteAtomic(rel string, data []byte, mode fs.FileMode) (bool, error) {
	p, name, err := r.parent(rel)
	if err != nil {
		return false, err
	}
	defer p.Close()
	return p.writeAtomic(name, data, mode)
}

func (r *Root) writeAtomic(rel string, data []byte, mode fs.FileMode) (bool, error) {
	f, old, err := r.open(rel, os.O_WRONLY)
	switch {
	case err == nil:
		f.Close()
	case !fault.Has(err, fault.NotFound):
		return false, err
	}
	temp := tempName(rel)
	if err := r.writeNew(temp, mode, old, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
		return false, r.fail(filepath.Dir(rel), err)
	}
	if err := r.dir.Rename(temp, rel); err != nil {
		_ = r.dir.Remove(temp) // the first error is returned
		return false, r.fail(rel, err)
	}
	return old == nil, r.fail(rel, r.syncDir(filepath.Dir(rel)))
}

// tempName returns the name of a new temporary file in the directory of rel.
func tempName(rel string) string {
	return filepath.Join(filepath.Dir(rel), ".orch-"+rand.Text()+".tmp")
}

// writeNew creates a file, fills it and syncs it. After an error it removes the file. It copies permissions and owner
// from old, unless old is nil.
func (r *Root) writeNew(rel string, mode fs.FileMode, old fs.FileInfo, fill func(io.Writer) error) error {
	f, err := r.dir.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if old != nil {
		err = inherit(f, old)
	}
	if err == nil {
		err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = r.dir.Remove(rel) // the first error is returned
	}
	return err
}

// inherit copies the permissions of old to f, and the owner if the process may set it.
func inherit(f *os.File, old fs.FileInfo) error {
	if stat, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(stat.Uid), int(stat.Gid)) // fails unless the process is root; the file then keeps the process's owner
	}
	return f.Chmod(old.Mode().Perm())
}

// syncDir makes the entries of a directory durable.
func (r *Root) syncDir(rel string) error {
	d, err := r.dir.Open(rel)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
