// Package workspace manages the folders in which tasks work: Working/TASK_<ULID>/ with workspace/, temp/, outputs/,
// PROGRESS.md and CHECKPOINTS.md. A .gitignore keeps these folders out of the user's repository. Working/ also
// contains the caches of identities, and the records of the tasks that each identity may access. An identity is the
// person or agent that tasks run for.
//
// Tools can write into these folders, so their content is not trusted: a folder that was replaced by a link is refused,
// and every operation stays inside the root.
package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// The names inside the folder of a task.
const (
	// Files is the folder for the files that the task works on.
	Files = "workspace"
	// Temp is the folder for temporary files, removed when the task ends.
	Temp = "temp"
	// Backups is the folder inside Temp for backups of deleted files.
	Backups = "backups"
	// Outputs is the folder for the results of the task.
	Outputs = "outputs"

	// caches is the folder of the caches of identities, by digest.
	caches = ".cache"

	ignoreFile      = ".gitignore"
	progressFile    = "PROGRESS.md"
	checkpointsFile = "CHECKPOINTS.md"
)

const separator = string(filepath.Separator)

// A shelf is a subfolder of the archive. The folders of completed and of failed tasks are moved to separate shelves.
const (
	archiveDir     = "Archive"
	CompletedShelf = archiveDir + separator + "Completed"
	FailedShelf    = archiveDir + separator + "Failed"
)

// maxKnown bounds the number of tasks in Tree.known.
const maxKnown = 4096

// Tree is the folder that contains the folders of all tasks. It is created for the first task. It is safe for
// concurrent use.
type Tree struct {
	root      *pathguard.Root
	rel, name string // the path of the tree: rel is relative to the root, name is absolute

	mu    sync.Mutex
	known map[events.TaskID]struct{} // tasks with a complete folder
	// recent caches the newest tasks of identities, by digest.
	recent map[string][]events.TaskID
}

// New returns the tree at working, an absolute path or a path relative to the root. It returns OUTSIDE_ROOT if working
// is not inside the root.
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

// Ensure creates the folder of a task, or its missing parts, and returns the absolute path. name is used in the
// headings of the notes. Ensure returns INVALID_FORMAT for an invalid task id, and OUTSIDE_ROOT if the folder is a link
// or a file.
func (t *Tree) Ensure(task events.TaskID, name string) (string, error) {
	if t.isKnown(task) {
		switch exists, err := t.isFolder(task); {
		case err != nil:
			return "", err
		case exists:
			return t.Path(task), nil
		}
	}
	if _, err := t.hasFolder(task); err != nil {
		return "", err
	}
	if err := t.build(task, name); err != nil {
		return "", err
	}
	t.remember(task)
	return t.Path(task), nil
}

// RemoveTemp removes the temporary files of a task. Backups of deleted files are kept until the archive of the task is
// removed. It does nothing for a task without a folder.
func (t *Tree) RemoveTemp(task events.TaskID) error {
	if exists, err := t.hasFolder(task); !exists {
		return err
	}
	t.forget(task)
	return t.emptyTemp(filepath.Join(t.at(task), Temp))
}

// emptyTemp removes a temporary folder. If it contains backups, it removes everything except them.
func (t *Tree) emptyTemp(rel string) error {
	info, err := t.root.Lstat(rel)
	if err != nil || !info.IsDir() { // it was replaced, for example by a link
		return t.root.RemoveAll(rel)
	}
	if info, err := t.root.Lstat(filepath.Join(rel, Backups)); err != nil || !info.IsDir() {
		return t.root.RemoveAll(rel)
	}
	return t.root.Empty(rel, Backups)
}

// Archive moves the folder of a finished task to Archive/Completed if ok is true, otherwise to Archive/Failed. It sets
// the modification time of the folder to the current time; no program of the task can change it any more. It does
// nothing for a task without a folder. It returns CONFLICT when the destination exists.
func (t *Tree) Archive(task events.TaskID, ok bool) error {
	if exists, err := t.hasFolder(task); !exists {
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

// move moves a folder. If the folder has no write permission, move adds it first, because renaming a folder updates its
// entry "..".
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

// Tasks returns the tasks that have a folder outside of the archive. It returns NOT_FOUND when the tree does not exist.
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

// at returns the folder of a task relative to the root. It avoids the cost of filepath.Join.
func (t *Tree) at(task events.TaskID) string { return t.rel + separator + string(task) }

// hasFolder reports whether the folder of a task exists. Errors: OUTSIDE_ROOT if its path is not a folder, INVALID_FORMAT for an
// invalid task id, which might contain path elements. Most tasks have no folder; this is found out without the root, which costs more.
func (t *Tree) hasFolder(task events.TaskID) (bool, error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return false, err
	}
	var usual syscall.Stat_t
	if errors.Is(syscall.Lstat(t.Path(task), &usual), fs.ErrNotExist) {
		return false, nil
	}
	return t.isFolder(task)
}

// isFolder is hasFolder for a valid task id.
func (t *Tree) isFolder(task events.TaskID) (bool, error) {
	info, err := t.root.Lstat(t.at(task))
	switch {
	case fault.Has(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fault.New(fault.OutsideRoot, "%s is not a directory: something has replaced it", t.Path(task)).
			WithHint("remove it and retry the task")
	}
	return true, nil
}

// check returns nil if the folder of a task exists. Errors: those of hasFolder, NOT_FOUND.
func (t *Tree) check(task events.TaskID) error {
	exists, err := t.hasFolder(task)
	if err == nil && !exists {
		err = fault.New(fault.NotFound, "task %s has no folder", task)
	}
	return err
}

// build creates the folder of a task, or its missing parts.
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
	if err := t.check(task); err != nil { // another goroutine may have been faster
		return err
	}
	for _, sub := range []string{filepath.Join(dir, Files), filepath.Join(dir, Temp), filepath.Join(dir, Outputs)} {
		if err := t.root.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return t.startNotes(task, name)
}

// hideFromGit excludes the tree from a repository at the root, unless the tree is the root itself. An existing
// .gitignore is not changed.
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
		clear(t.known) // the next call of each task checks again
	}
	t.known[task] = struct{}{}
}

func (t *Tree) forget(task events.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, task)
}
