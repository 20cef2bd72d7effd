package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// CacheAge is how long a cache is kept after its last use.
	CacheAge = 14 * 24 * time.Hour
	// stampEvery is how often the use of a cache is recorded.
	stampEvery = time.Hour
	// label is the suffix of the file next to a cache that contains its identity. The modification time of that file is
	// the time of the last use.
	label = ".identity"
)

// Cache creates the cache folder of an identity and returns its absolute path. Programs share it across tasks for files
// that can be regenerated, such as compiled packages. Only programs of that identity may write to it: its content must
// be treated as code, because compilers and package managers trust their caches.
func (t *Tree) Cache(identity string, now time.Time) (string, error) {
	at := filepath.Join(t.rel, caches, DigestOf(identity))
	if err := t.root.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	info, err := t.root.Lstat(at + label)
	switch {
	case fault.Has(err, fault.NotFound):
		if _, err := t.root.WriteAtomic(at+label, []byte(strconv.Quote(identity)+"\n"), 0o644); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	case now.Sub(info.ModTime()) > stampEvery:
		if err := os.Chtimes(t.root.Abs(at+label), now, now); err != nil {
			return "", unwritable(err)
		}
	}
	return t.root.Abs(at), t.root.MkdirAll(at, 0o755) // created after its label, because Sweep removes a cache without a label
}

// sweepCaches removes caches that were not used for CacheAge, and all other files in the folder of the caches, unless they are
// young: a call may be creating a cache.
func (t *Tree) sweepCaches(now time.Time) error {
	at := filepath.Join(t.rel, caches)
	entries, err := t.root.ReadDir(at)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), label)
		used, statErr := t.root.Lstat(filepath.Join(at, name+label))
		if statErr == nil && now.Sub(used.ModTime()) <= CacheAge {
			continue
		}
		if statErr != nil && !fault.Has(statErr, fault.NotFound) {
			err = errors.Join(err, statErr)
			continue
		}
		if info, infoErr := e.Info(); statErr != nil && (infoErr != nil || now.Sub(info.ModTime()) <= stampEvery) {
			continue // it is young, or gone
		}
		err = errors.Join(err, t.removeTree(filepath.Join(at, name)), t.root.RemoveAll(filepath.Join(at, name+label)))
	}
	return err
}

// removeTree removes a folder with its content. Programs may have removed write permissions of folders in it.
func (t *Tree) removeTree(rel string) error {
	if t.root.RemoveAll(rel) == nil {
		return nil
	}
	dir, err := os.OpenRoot(t.root.Name())
	if err != nil {
		return unwritable(err)
	}
	err = fs.WalkDir(dir.FS(), filepath.ToSlash(rel), func(at string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = dir.Chmod(at, 0o700) // before it is read
		}
		return err
	})
	if err := errors.Join(err, dir.Close()); err != nil {
		return unwritable(err)
	}
	return t.root.RemoveAll(rel)
}
