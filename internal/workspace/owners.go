package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const (
	// owners is the folder in which an empty file at DIGEST/TASK says that an identity works in the folder of a task.
	owners = ".owners"
	// MaxRecent bounds the tasks that Recent names.
	MaxRecent = 32
	// maxIdentities bounds the identities whose newest tasks are remembered.
	maxIdentities = 1024
)

// DigestOf names the folders of an identity: no identity can spell a path by its name, or have that of another one.
func DigestOf(identity string) string {
	const length = 16
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:length])
}

// Own notes that an identity works in the folder of a task, so that its other tasks may read there. An identity that
// is not known owns nothing.
func (t *Tree) Own(task events.TaskID, identity string) error {
	if identity == "" || t.Owns(identity, task) {
		return nil
	}
	at := filepath.Join(t.rel, owners, DigestOf(identity))
	if err := t.root.MkdirAll(at, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(t.root.Abs(at), string(task)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a task id below a digest
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return unwritable(err)
	}
	t.noteRecent(identity, task)
	return nil
}

// Owns reports whether an identity has worked in the folder of a task.
func (t *Tree) Owns(identity string, task events.TaskID) bool {
	if identity == "" {
		return false
	}
	info, err := os.Lstat(filepath.Join(t.name, owners, DigestOf(identity), string(task)))
	return err == nil && info.Mode().IsRegular()
}

// Recent returns the newest tasks of an identity whose folders are there, at most MaxRecent, the newest first.
func (t *Tree) Recent(identity string) []events.TaskID {
	if identity == "" {
		return nil
	}
	var there []events.TaskID
	for _, task := range t.loadRecent(identity) {
		if info, err := os.Lstat(t.Path(task)); err == nil && info.IsDir() {
			there = append(there, task)
		}
	}
	return there
}

// loadRecent returns the newest tasks of an identity; the folder of its notes is read once.
func (t *Tree) loadRecent(identity string) []events.TaskID {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := DigestOf(identity)
	if tasks, ok := t.recent[key]; ok {
		return slices.Clone(tasks)
	}
	entries, err := os.ReadDir(filepath.Join(t.name, owners, key))
	if err != nil {
		entries = nil // nothing is owned yet
	}
	var tasks []events.TaskID
	for _, e := range slices.Backward(entries) { // by name, which is by age
		if id, err := events.ParseTaskID(e.Name()); err == nil && len(tasks) < MaxRecent {
			tasks = append(tasks, id)
		}
	}
	if len(t.recent) >= maxIdentities {
		clear(t.recent)
	}
	t.recent[key] = tasks
	return slices.Clone(tasks)
}

// noteRecent adds a task to those of an identity, if they are loaded.
func (t *Tree) noteRecent(identity string, task events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := DigestOf(identity)
	if tasks, ok := t.recent[key]; ok {
		tasks = append(tasks, task)
		slices.SortFunc(tasks, func(a, b events.TaskID) int { return strings.Compare(string(b), string(a)) })
		t.recent[key] = tasks[:min(len(tasks), MaxRecent)]
	}
}

// Foreign reports whether a path relative to the root lies in the tree and is not for an identity at work on a task:
// it belongs to the tasks of others, or to what the tree keeps for itself. The folders that hold tasks are nobody's.
func (t *Tree) Foreign(rel, identity string, task events.TaskID) bool {
	below, ok := strings.CutPrefix(rel, t.rel+separator)
	if !ok {
		return false
	}
	parts := strings.SplitN(below, separator, 4)
	if parts[0] == archiveDir {
		if len(parts) < 3 {
			return false
		}
		parts = parts[2:]
	}
	id, err := events.ParseTaskID(parts[0])
	return err != nil || id != task && !t.Owns(identity, id)
}

// Sweep removes the caches that no identity has used for CacheAge, and the notes of who works where for folders that
// are gone.
func (t *Tree) Sweep(now time.Time) error {
	if _, err := os.Lstat(t.name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(t.sweepCaches(now), t.sweepOwners())
}

func (t *Tree) sweepOwners() error {
	at := filepath.Join(t.rel, owners)
	identities, err := t.root.ReadDir(at)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	for _, identity := range identities {
		tasks, readErr := t.root.ReadDir(filepath.Join(at, identity.Name()))
		err = errors.Join(err, readErr)
		for _, task := range tasks {
			if !t.exists(task.Name()) {
				err = errors.Join(err, t.root.RemoveAll(filepath.Join(at, identity.Name(), task.Name())))
			}
		}
	}
	return err
}

// Has reports whether a task has a folder, in the archive or outside of it.
func (t *Tree) Has(task string) bool { return t.exists(task) }

// exists reports whether a task has a folder, in the archive or outside of it.
func (t *Tree) exists(task string) bool {
	for _, shelf := range []string{"", CompletedShelf, FailedShelf} {
		if _, err := os.Lstat(filepath.Join(t.name, shelf, task)); err == nil {
			return true
		}
	}
	return false
}
