package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// GoingShelf is the archive folder for task folders that are being removed, so that an interrupted removal can be
// continued.
const GoingShelf = archiveDir + separator + "Going"

// Shelved is the folder of an archived task.
type Shelved struct {
	Task events.TaskID
	// Ended is when the folder was archived, after the end of its task.
	Ended time.Time
}

// Shelved returns the task folders that were moved to a shelf before a time, in the order in which the tasks were
// submitted.
func (t *Tree) Shelved(shelf string, before time.Time) ([]Shelved, error) {
	entries, err := t.root.ReadDir(filepath.Join(t.rel, shelf))
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Shelved
	for _, e := range entries {
		id, err := events.ParseTaskID(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		if !id.Time().Before(before) {
			break
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			all = append(all, Shelved{id, info.ModTime()})
		}
	}
	return all, nil
}

// Size returns the total size in bytes and the number of the files in a shelf.
func (t *Tree) Size(ctx context.Context, shelf string) (bytes int64, files int, err error) {
	return t.size(ctx, filepath.Join(t.rel, shelf))
}

// SizeOf returns the total size in bytes and the number of the files in one task's folder. Unreadable files are not
// counted.
func (t *Tree) SizeOf(ctx context.Context, shelf string, task events.TaskID) (bytes int64, files int, err error) {
	return t.size(ctx, filepath.Join(t.rel, shelf, string(task)))
}

func (t *Tree) size(ctx context.Context, rel string) (bytes int64, files int, err error) {
	err = t.root.Walk(ctx, rel, func(_ string, entry fs.DirEntry) error {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes, files = bytes+info.Size(), files+1
		}
		return nil
	})
	if fault.Has(err, fault.NotFound) || errors.Is(err, fs.ErrPermission) { // as for unreadable entries below it
		err = nil
	}
	return bytes, files, err
}

// Retire atomically moves the folder of an archived task to GoingShelf. Discard then removes the folder.
func (t *Tree) Retire(shelf string, task events.TaskID) error {
	if err := t.root.MkdirAll(filepath.Join(t.rel, GoingShelf), 0o755); err != nil {
		return err
	}
	return t.move(filepath.Join(t.rel, shelf, string(task)), filepath.Join(t.rel, GoingShelf, string(task)))
}

// Retired returns the retired tasks with folders that Discard has not removed completely.
func (t *Tree) Retired() ([]events.TaskID, error) {
	tasks, err := t.tasksIn(filepath.Join(t.rel, GoingShelf))
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	return tasks, err
}

// Discard removes the folder of a retired task.
func (t *Tree) Discard(task events.TaskID) error {
	return t.removeTree(filepath.Join(t.rel, GoingShelf, string(task)))
}
