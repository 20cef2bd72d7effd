// Package workspace keeps the folders in which tasks work: Working/TASK_<ULID>/ with workspace/,
// temp/, outputs/, PROGRESS.md and CHECKPOINTS.md. A .gitignore keeps all of them out of
// the user's repository. Beside them lie the caches of each identity, and the notes of which identity works where.
//
// Tools may write into these folders, so nothing in them is trusted: a folder that was replaced by a
// link is refused, and every operation stays inside the root.
package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// The names inside the folder of a task.
const (
	// Files is the folder for what the task works on.
	Files = "workspace"
	// Temp is the folder that does not outlive the work.
	Temp = "temp"
	// Backups is the folder inside Temp for backups of what was deleted.
	Backups = "backups"
	// Outputs is the folder for what the task hands over.
	Outputs = "outputs"

	// caches is the folder beside those of the tasks for what programs of an identity share, by its digest.
	caches = ".cache"

	ignoreFile      = ".gitignore"
	progressFile    = "PROGRESS.md"
	checkpointsFile = "CHECKPOINTS.md"
)

const separator = string(filepath.Separator)

// The folders of finished tasks, and the shelves for those whose histories are archived.
const (
	archiveDir     = "Archive"
	CompletedShelf = archiveDir + separator + "Completed"
	FailedShelf    = archiveDir + separator + "Failed"
)

// maxKnown bounds the set of folders that are known to be complete.
const maxKnown = 4096

// Tree is the folder that holds the folders of all tasks. It is made when the first task needs it.
// It is safe for concurrent use.
type Tree struct {
	root      *pathguard.Root
	rel, name string // of the tree: relative to the root, absolute

	mu    sync.Mutex
	known map[events.TaskID]struct{}
	// recent holds the newest tasks of identities, by their digest.
	recent map[string][]events.TaskID
}

// New returns the tree at working: a path inside the root, absolute or relative to it. OUTSIDE_ROOT
// otherwise.
func New(root *pathguard.Root, working string) (*Tree, error) {
	rel := working
	if filepath.IsAbs(working) {
		var err error
		if rel, err = filepath.Rel(root.Name(), working); err != nil {
			return nil, fault.Wrap(fault.OutsideRoot, err, "the folder for workspaces lies outside the root")
		}
	}
	if !filepath.IsLocal(rel) {
		return nil, fault.New(fault.OutsideRoot, "the folder for workspaces lies outside the root").
			WithHint("the root is %s", root.Name())
	}
	rel = filepath.Clean(rel)
	return &Tree{root: root, rel: rel, name: root.Abs(rel), known: map[events.TaskID]struct{}{}, recent: map[string][]events.TaskID{}}, nil
}

// Name returns the absolute path of the tree.
func (t *Tree) Name() string { return t.name }

// Path returns the absolute path of the folder of a task, whether or not it exists.
func (t *Tree) Path(task events.TaskID) string { return t.name + separator + string(task) }

// Ensure makes the folder of a task unless it is complete, and returns its absolute path. name heads
// the notes. INVALID_FORMAT for what is no task id, OUTSIDE_ROOT for a folder that is a link or a file.
func (t *Tree) Ensure(task events.TaskID, name string) (string, error) {
	switch err := t.check(task); {
	case err == nil && t.isKnown(task):
		return t.Path(task), nil
	case err != nil && !fault.Has(err, fault.NotFound):
		return "", err
	}
	if err := t.build(task, name); err != nil {
		return "", err
	}
	t.remember(task)
	return t.Path(task), nil
}

// RemoveTemp removes the temporary files of a task, but not the backups of what it has deleted: they stay
// until its archive goes. A task without a folder has none.
func (t *Tree) RemoveTemp(task events.TaskID) error {
	switch err := t.check(task); {
	case fault.Has(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	}
	t.forget(task)
	return t.emptyTemp(filepath.Join(t.at(task), Temp))
}

// emptyTemp removes a temporary folder, or what is in it beside the backups.
func (t *Tree) emptyTemp(rel string) error {
	info, err := t.root.Lstat(rel)
	if err != nil || !info.IsDir() { // somebody has put a link there, for example
		return t.root.RemoveAll(rel)
	}
	if info, err := t.root.Lstat(filepath.Join(rel, Backups)); err != nil || !info.IsDir() {
		return t.root.RemoveAll(rel)
	}
	return t.root.Empty(rel, Backups)
}

// Archive moves the folder of a finished task to Archive/Completed or, unless ok, Archive/Failed, and sets its time to now: no
// program of the task changes that any more. A task without a folder has nothing to move; CONFLICT when its place in the archive is taken.
func (t *Tree) Archive(task events.TaskID, ok bool) error {
	switch err := t.check(task); {
	case fault.Has(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	}
	t.forget(task)
	shelf := filepath.Join(t.rel, FailedShelf)
	if ok {
		shelf = filepath.Join(t.rel, CompletedShelf)
	}
	if err := t.root.MkdirAll(shelf, 0o755); err != nil {
		return err
	}
	dir, err := os.OpenRoot(t.root.Name())
	if err != nil {
		return unwritable(err)
	}
	defer dir.Close()
	now := time.Now()
	if err := dir.Chtimes(t.at(task), now, now); err != nil {
		return unwritable(err)
	}
	return t.move(t.at(task), filepath.Join(shelf, string(task)))
}

// move moves a folder into another one, also one that may not be written into: its entry for the parent changes.
func (t *Tree) move(from, to string) error {
	err := t.root.Rename(from, to)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	dir, openErr := os.OpenRoot(t.root.Name())
	if openErr != nil {
		return unwritable(openErr)
	}
	if chmodErr := errors.Join(dir.Chmod(from, 0o700), dir.Close()); chmodErr != nil {
		return err
	}
	return t.root.Rename(from, to)
}

// Tasks returns the tasks that have a folder outside of the archive. NOT_FOUND when there is no tree.
func (t *Tree) Tasks() ([]events.TaskID, error) { return t.tasksIn(t.rel) }

func (t *Tree) tasksIn(rel string) ([]events.TaskID, error) {
	entries, err := t.root.ReadDir(rel)
	if err != nil {
		return nil, err
	}
	var tasks []events.TaskID
	for _, e := range entries {
		if id, err := events.ParseTaskID(e.Name()); err == nil && e.IsDir() {
			tasks = append(tasks, id)
		}
	}
	return tasks, nil
}

// at is the folder of a task relative to the root, without the cost of filepath.Join.
func (t *Tree) at(task events.TaskID) string { return t.rel + separator + string(task) }

// check tells whether the folder of the task is there and a folder: NOT_FOUND or OUTSIDE_ROOT if not,
// INVALID_FORMAT for what is no task id and might be a path to somewhere else.
func (t *Tree) check(task events.TaskID) error {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Path(task)); errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, err, "task "+string(task)+" has no folder") // the usual case, told without the way through the root
	}
	info, err := t.root.Lstat(t.at(task))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fault.New(fault.OutsideRoot, "%s is no directory but something else that was put there", t.Path(task)).
			WithHint("remove it and retry the task")
	}
	return nil
}

// build makes everything that a folder holds and leaves alone what is there.
func (t *Tree) build(task events.TaskID, name string) error {
	dir := t.at(task)
	if err := t.root.MkdirAll(t.rel, 0o755); err != nil {
		return err
	}
	if err := t.hideFromGit(); err != nil {
		return err
	}
	if err := t.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := t.check(task); err != nil { // someone else may have been first
		return err
	}
	for _, sub := range []string{filepath.Join(dir, Files), filepath.Join(dir, Temp), filepath.Join(dir, Outputs)} {
		if err := t.root.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return t.startNotes(task, name)
}

// hideFromGit keeps the tree out of a repository that the root may be, unless the tree is the root
// itself. A .gitignore that is there stays, whatever it says.
func (t *Tree) hideFromGit() error {
	if t.rel == "." {
		return nil
	}
	switch _, err := t.root.Lstat(filepath.Join(t.rel, ignoreFile)); {
	case err == nil:
		return nil
	case !fault.Has(err, fault.NotFound):
		return err
	}
	dir, err := os.OpenRoot(t.root.Name())
	if err != nil {
		return unwritable(err)
	}
	defer dir.Close()
	if err := create(dir, filepath.Join(t.rel, ignoreFile), "*\n"); err != nil {
		return unwritable(err)
	}
	return nil
}

func (t *Tree) isKnown(task events.TaskID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.known[task]
	return ok
}

func (t *Tree) remember(task events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxKnown {
		clear(t.known) // the next call of each task looks again
	}
	t.known[task] = struct{}{}
}

func (t *Tree) forget(task events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, task)
}
