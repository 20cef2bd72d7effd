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
	// owners is the folder of the access records: an empty file DIGEST/TASK records that the identity with this digest
	// works on a task.
	owners = ".owners"
	// MaxRecent bounds the number of tasks that Recent returns.
	MaxRecent = 32
	// maxIdentities bounds the number of identities with cached tasks.
	maxIdentities = 1024
)

// DigestOf returns the folder name of an identity: a digest, which contains no path separators and does not collide
// with the digest of another identity.
func DigestOf(identity string) string {
	const length = 16
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:length])
}

// RecordAccess records that an identity works on a task, so that all tasks of this identity may read its folder. It
// records nothing for an empty identity.
func (t *Tree) RecordAccess(task events.TaskID, identity string) error {
	if identity == "" || t.HasAccess(identity, task) {
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
	t.cacheRecent(identity, task)
	return nil
}

// HasAccess reports whether RecordAccess was called for an identity and a task. It returns false for an empty identity.
func (t *Tree) HasAccess(identity string, task events.TaskID) bool {
	if identity == "" {
		return false
	}
	info, err := os.Lstat(filepath.Join(t.name, owners, DigestOf(identity), string(task)))
	return err == nil && info.Mode().IsRegular()
}

// Recent returns up to MaxRecent tasks of an identity that have a folder, newest first.
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

// loadRecent returns the newest tasks of an identity. It reads the access records once and caches the result.
func (t *Tree) loadRecent(identity string) []events.TaskID {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := DigestOf(identity)
	if tasks, ok := t.recent[key]; ok {
		return slices.Clone(tasks)
	}
	entries, err := os.ReadDir(filepath.Join(t.name, owners, key))
	if err != nil {
		entries = nil // there are no records yet
	}
	var tasks []events.TaskID
	for _, e := range slices.Backward(entries) { // sorted by name: task ids sort by age
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

// cacheRecent adds a task to the cached tasks of an identity, if they are cached.
func (t *Tree) cacheRecent(identity string, task events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := DigestOf(identity)
	if tasks, ok := t.recent[key]; ok {
		tasks = append(tasks, task)
		slices.SortFunc(tasks, func(a, b events.TaskID) int { return strings.Compare(string(b), string(a)) })
		t.recent[key] = tasks[:min(len(tasks), MaxRecent)]
	}
}

// Foreign reports whether an identity that works on a task may not access a path. rel is relative to the root. It is
// foreign if it is in the folder of a task that the identity has no access to, or in a folder that the tree uses
// itself. The archive folders that contain tasks, the tree's root and paths outside of the tree are not foreign.
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
	return err != nil || id != task && !t.HasAccess(identity, id)
}

// Sweep removes caches that were not used for CacheAge, and access records of removed folders.
func (t *Tree) Sweep(now time.Time) error {
	if _, err := os.Lstat(t.name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(t.sweepCaches(now), t.sweepRecords())
}

func (t *Tree) sweepRecords() error {
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
	for _, dir := range []string{"", CompletedShelf, FailedShelf} {
		if _, err := os.Lstat(filepath.Join(t.name, dir, task)); err == nil {
			return true
		}
	}
	return false
}
