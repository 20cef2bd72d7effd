package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// maxLine bounds one line of the notes, in bytes before escaping.
const maxLine = 4096

// AppendProgress adds one line to PROGRESS.md of a task. The folder of the task must exist. Control characters are
// escaped, so that a line cannot forge a second one.
func (t *Tree) AppendProgress(task events.TaskID, line string) error {
	return t.appendLine(task, progressFile, line)
}

// AppendCheckpoint adds one line to CHECKPOINTS.md, like AppendProgress.
func (t *Tree) AppendCheckpoint(task events.TaskID, line string) error {
	return t.appendLine(task, checkpointsFile, line)
}

func (t *Tree) appendLine(task events.TaskID, file, line string) error {
	if err := t.check(task); err != nil {
		return err
	}
	rel := filepath.Join(t.at(task), file)
	switch info, err := t.root.Lstat(rel); {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fault.New(fault.OutsideRoot, "%s is not a regular file", t.root.Abs(rel))
	}
	f, err := t.root.OpenAppend(rel)
	if err != nil {
		return err
	}
	if err := write(f, "- "+oneLine(line)+"\n"); err != nil {
		return unwritable(err)
	}
	return nil
}

// startNotes creates PROGRESS.md and CHECKPOINTS.md with their headings if they are missing. It does not sync them:
// these notes are only for people, the event log is authoritative.
func (t *Tree) startNotes(task events.TaskID, name string) error {
	dir, err := os.OpenRoot(t.root.Name())
	if err != nil {
		return unwritable(err)
	}
	defer dir.Close()
	for file, title := range map[string]string{progressFile: "Progress", checkpointsFile: "Checkpoints"} {
		heading := strings.TrimSpace("# "+title+" of "+string(task)+" "+oneLine(name)) + "\n\n"
		if err := create(dir, filepath.Join(t.at(task), file), heading); err != nil {
			return unwritable(err)
		}
	}
	return nil
}

// create writes a new file. It does not change an existing file.
func create(dir *os.Root, rel, text string) error {
	f, err := dir.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return write(f, text)
}

// write writes text to f and closes f.
func write(f *os.File, text string) error {
	_, err := f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// unwritable returns the coded error for notes that cannot be written.
func unwritable(err error) error {
	code := fault.CodeOf(err)
	if errors.Is(err, syscall.ENOSPC) {
		code = fault.DiskFull
	}
	if errors.Is(err, syscall.EROFS) {
		return fault.Wrap(code, err, "the notes of the task cannot be written: the file system of "+pathOf(err)+" is mounted read-only").
			WithReason(fault.ReadOnlyFileSystem).WithHint("mount it writable, or choose another --root")
	}
	return fault.Wrap(code, err, "the notes of the task cannot be written")
}

// oneLine returns s with invisible characters escaped: line breaks, other control characters and characters that change
// the text direction.
func oneLine(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine] + "…"
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// pathOf returns the path in an error of the operating system, or "the workspace".
func pathOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Path
	}
	return "the workspace"
}
