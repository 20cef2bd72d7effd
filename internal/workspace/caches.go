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
	// CacheAge is how long a cache stays that nobody uses.
	CacheAge = 14 * 24 * time.Hour
	// stampEvery is how often the use of a cache is written down.
	stampEvery = time.Hour
	// label is how the file beside a cache ends that says whose it is; its time is that of the last use.
	label = ".identity"
)

// Cache makes the folder for what the programs of an identity may share from task to task and make again, such as
// compiled packages, and returns its absolute path. What is in it was written by programs of that identity alone: it is
// code, because compilers and package managers trust their caches.
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
	return t.root.Abs(at), t.root.MkdirAll(at, 0o755) // after its label: without one it would be swept
}

// sweepCaches removes what lies between the caches and belongs to none that was used of late.
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
		err = errors.Join(err, t.removeTree(filepath.Join(at, name)), t.root.RemoveAll(filepath.Join(at, name+label)))
	}
	return err
}

// removeTree removes a folder with what is in it, whose programs may have taken away the right to write into folders.
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
