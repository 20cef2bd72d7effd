package workspace

import (
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// maxPath bounds a path below the folder of a task, in bytes.
const maxPath = 4096

// ParsePath checks a path below the folder of a task: names that are separated by single slashes. The empty path is the
// folder itself. It returns INVALID_FORMAT with the reason INVALID_PATH for any other text.
func ParsePath(text string) (string, error) {
	var why string
	switch {
	case text == "":
		return "", nil
	case len(text) > maxPath:
		why = "is longer than 4096 bytes"
	case strings.ContainsRune(text, 0):
		why = "contains a NUL byte"
	case !utf8.ValidString(text):
		why = "is not UTF-8"
	case strings.HasPrefix(text, "/"):
		why = "begins in the workspace of the task, without a slash"
	case text != path.Clean(text) || text == "." || text == ".." || strings.HasPrefix(text, "../"):
		why = "must not contain empty names, . or .."
	default:
		return text, nil
	}
	return "", fault.New(fault.InvalidFormat, "the path %s", why).WithReason("INVALID_PATH").WithField("path")
}

// Open opens the folder of a task, live or archived, for reading. The caller must close it. Errors: NOT_FOUND, GONE for a
// folder that is being removed, OUTSIDE_ROOT if something has replaced it.
func (t *Tree) Open(task events.TaskID) (*pathguard.Folder, error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return nil, err
	}
	for _, shelf := range []string{"", CompletedShelf, FailedShelf} { // in the order in which it moves
		rel := filepath.Join(t.rel, shelf, string(task))
		info, err := t.root.Lstat(rel)
		switch {
		case fault.Has(err, fault.NotFound):
			continue
		case err != nil:
			return nil, err
		case !info.IsDir():
			return nil, fault.New(fault.OutsideRoot, "%s is not a directory: something has replaced it", t.root.Abs(rel))
		}
		folder, err := t.root.Folder(rel)
		if !fault.Has(err, fault.NotFound) { // it has not moved meanwhile
			return folder, err
		}
	}
	if _, err := t.root.Lstat(filepath.Join(t.rel, GoingShelf, string(task))); err == nil {
		return nil, fault.New(fault.Gone, "the workspace of the task is being removed")
	}
	return nil, fault.New(fault.NotFound, "task %s has no folder", task)
}
