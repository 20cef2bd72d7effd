package workspace

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const (
	// MaxOutput bounds a file that ReadOutput returns, in bytes.
	MaxOutput = 2 << 20
	// MaxOutputs bounds the number of files that ListOutputs returns.
	MaxOutputs = 1000
)

// ListOutputs returns the sorted names, with slashes, of the output files of a task. A task without a folder has none.
func (t *Tree) ListOutputs(ctx context.Context, task events.TaskID) ([]string, error) {
	base, err := t.outputs(task)
	if err != nil || base == "" {
		return nil, err
	}
	var names []string
	err = t.root.Walk(ctx, base, func(rel string, entry fs.DirEntry) error {
		if len(names) == MaxOutputs {
			return fs.SkipAll
		}
		if name, err := filepath.Rel(base, rel); err == nil && entry.Type().IsRegular() {
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	return names, err
}

// ReadOutput returns an output file of a task. Errors: NOT_FOUND, OUTSIDE_ROOT for a name that leads outside, and
// VALIDATION_ERROR for a file of more than MaxOutput bytes.
func (t *Tree) ReadOutput(_ context.Context, task events.TaskID, name string) ([]byte, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return nil, fault.New(fault.OutsideRoot, "the name leads outside of the outputs").WithField("path")
	}
	base, err := t.outputs(task)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return nil, fault.New(fault.NotFound, "the task hands over no such file").WithField("path")
	}
	found, err := t.root.Resolve(t.root.Abs(filepath.Join(base, local)))
	if err != nil {
		return nil, err
	}
	if inside, err := filepath.Rel(base, found); err != nil || !filepath.IsLocal(inside) {
		return nil, fault.New(fault.OutsideRoot, "the name leads outside of the outputs").WithField("path")
	}
	return t.root.ReadFile(found, MaxOutput)
}

// outputs returns the outputs folder of a task, live or archived, relative to the root. It returns "" if there is none.
func (t *Tree) outputs(task events.TaskID) (string, error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return "", err
	}
	for _, dir := range []string{"", CompletedShelf, FailedShelf} {
		at := filepath.Join(t.rel, dir, string(task), Outputs)
		if info, err := t.root.Lstat(at); err == nil && info.IsDir() {
			return at, nil
		}
	}
	return "", nil
}
