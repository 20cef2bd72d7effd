package pathguard

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
)

// WriteAtomic replaces or creates the file rel, so that every reader, also after a crash, finds the
// old content or the new one (S0-037, S4-025). The parent must exist. An existing file keeps its
// permissions and must be writable; a new one gets mode, less the umask. It reports whether the file
// is new.
func (r *Root) WriteAtomic(rel string, data []byte, mode fs.FileMode) (bool, error) {
	created, keep := true, false
	switch old, info, err := r.open(rel, os.O_WRONLY); {
	case err == nil:
		old.Close()
		created, keep, mode = false, true, info.Mode().Perm()
	case !fault.Has(err, fault.NotFound):
		return false, err
	}
	temp := filepath.Join(filepath.Dir(rel), ".orch-"+rand.Text()+".tmp")
	if err := r.writeNew(temp, data, mode, keep); err != nil {
		return false, r.fail(filepath.Dir(rel), err)
	}
	if err := r.dir.Rename(temp, rel); err != nil {
		_ = r.dir.Remove(temp) // the first error is the one to tell
		return false, r.fail(rel, err)
	}
	return created, r.fail(rel, r.syncDir(filepath.Dir(rel)))
}

// writeNew writes a file that does not exist yet to the disk, or leaves nothing behind.
func (r *Root) writeNew(rel string, data []byte, mode fs.FileMode, exact bool) error {
	f, err := r.dir.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if exact { // past the umask
		err = f.Chmod(mode)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = r.dir.Remove(rel) // the first error is the one to tell
	}
	return err
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
