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

// GoingShelf holds what is being removed, so that a removal that was cut short goes on where it was.
const GoingShelf = archiveDir + separator + "Going"

// Shelved is the folder of an archived task.
type Shelved struct {
	Task events.TaskID
	// Ended is when the folder came onto its shelf, after the end of its task.
	Ended time.Time
}

// Shelved returns the folders of a shelf that have been there since before a time, in the order in which their tasks were
// submitted. Younger tasks are not looked at.
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

// Size returns the bytes and the number of the files of a shelf.
func (t *Tree) Size(ctx context.Context, shelf string) (bytes int64, files int, err error) {
	return t.size(ctx, filepath.Join(t.rel, shelf))
}

// SizeOf returns those of the folder of one task, 0 for what cannot be read.
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
	if fault.Has(err, fault.NotFound) || errors.Is(err, fs.ErrPermission) { // as what cannot be read below it
		err = nil
	}
	return bytes, files, err
}

// Retire takes the folder of an archived task from its shelf, to be removed by Discard. It goes at once or not at all.
func (t *Tree) Retire(shelf string, task events.TaskID) error {
	if err := t.root.MkdirAll(filepath.Join(t.rel, GoingShelf), 0o755); err != nil {
		return err
	}
	return t.move(filepath.Join(t.rel, shelf, string(task)), filepath.Join(t.rel, GoingShelf, string(task)))
}

// Retired returns the tasks whose folders are to be removed, or are in part.
func (t *Tree) Retired() ([]events.TaskID, error) {
	tasks, err := t.tasksIn(filepath.Join(t.rel, GoingShelf))
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	return tasks, err
}

// Discard removes the folder of a task that was retired.
func (t *Tree) Discard(task events.TaskID) error {
	return t.removeTree(filepath.Join(t.rel, GoingShelf, string(task)))
}
