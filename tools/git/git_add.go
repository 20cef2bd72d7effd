package git

import (
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxIndex is the largest size of an index in bytes.
const maxIndex = 256 << 20

type gitAddIn struct {
	FilePaths      []string `json:"file_paths" jsonschema:"Paths to files to stage: absolute, or relative to the top of the work tree as GIT_STATUS lists them; a tracked file that no longer exists is staged as deleted" minItems:"1" maxItems:"1000"`
	RepositoryPath string   `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
}

type gitAddOut struct {
	Staged []string `json:"staged" jsonschema:"Paths of the staged files, relative to the top of the work tree"`
}

// gitAdd is GIT_ADD (S0-102, S0-103, S0-109). Files are staged in a copy of the index, which replaces the index once
// all are staged and none contains a secret.
func gitAdd(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       "GIT_ADD",
		Title:      "Stage files",
		Purpose:    "Stage files for commit",
		Conditions: []string{"Task state: IN_PROGRESS", "Files exist and are not secrets", "All files are staged or none"},
		Effect:     tools.Idempotent,
		Gate:       tools.InProgress,
		Approval:   tools.NoApproval,
		Paths:      []tools.Path{{Field: "repository_path", Access: tools.ReadPath}},
		Errors: []string{
			"NOT_FOUND", "REPO_NOT_FOUND", "SECRET_DETECTED", "OUTSIDE_ROOT", "PROTECTED_PATH", "INVALID_FORMAT", "INVALID_PATH",
			"VALIDATION_ERROR", "CONFLICT", "EXEC_FAILED",
		},
	}, func(ctx context.Context, env *tools.Env, in gitAddIn) (gitAddOut, error) {
		w, err := openWritable(ctx, env, in.RepositoryPath)
		if err != nil {
			return gitAddOut{}, err
		}
		paths, err := w.stagePaths(ctx, cfg, in.FilePaths)
		if err != nil {
			return gitAddOut{}, err
		}
		return gitAddOut{Staged: paths}, w.stage(ctx, cfg, paths)
	})
}

// stagePaths returns the paths relative to the top of the work tree, sorted and without duplicates. It fails when one
// of them cannot be staged.
func (w *writable) stagePaths(ctx context.Context, cfg Config, paths []string) ([]string, error) {
	var names, deleted []string
	for i, path := range paths {
		name, exists, err := w.checkPath(cfg, path)
		if err != nil {
			return nil, fault.From(err).WithField("file_paths[" + strconv.Itoa(i) + "]")
		}
		if !exists {
			deleted = append(deleted, name)
		}
		names = append(names, name)
	}
	if len(deleted) > 0 {
		if err := w.checkTracked(ctx, deleted); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names, w.checkFilters(ctx, names)
}

// checkPath checks the location, the name and the content of one path.
func (w *writable) checkPath(cfg Config, path string) (name string, exists bool, err error) {
	if !filepath.IsAbs(path) && path != "" {
		path = filepath.Join(w.top, path)
	}
	rel, err := w.env.Root.ResolveEntry(path)
	if err != nil {
		return "", false, err
	}
	abs := w.env.Root.Abs(rel)
	name, err = filepath.Rel(w.top, abs)
	if err != nil || !filepath.IsLocal(name) || name == "." {
		return "", false, fault.New(fault.InvalidFormat, "%s is not a file of the work tree %s", abs, w.top).WithReason("INVALID_PATH")
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return "", false, fault.New(fault.ProtectedPath, "%s belongs to the repository itself", abs)
		}
	}
	if err := checkForeign(w.env, abs); err != nil {
		return "", false, err
	}
	exists, err = w.checkContent(cfg, rel)
	return name, exists, err
}

// checkContent rejects folders and files with secrets before git stores any of their content. A link is staged as the
// path that it names and not followed.
func (w *writable) checkContent(cfg Config, rel string) (exists bool, err error) {
	info, err := w.env.Root.Lstat(rel)
	switch {
	case fault.Has(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case cfg.IsSecretFile(rel):
		return true, secretName(rel)
	case info.IsDir():
		return true, fault.New(fault.InvalidFormat, "%s is a folder", rel).WithReason("INVALID_PATH").WithHint("name the files in it")
	case info.Mode().Type() == fs.ModeSymlink:
		return true, nil
	}
	data, err := w.env.Root.ReadFile(rel, maxScanned)
	if err != nil {
		return true, err
	}
	if rule, found := cfg.FindSecret(data); found {
		return true, secretContent(rel, rule)
	}
	return true, nil
}

// checkTracked returns NOT_FOUND for missing files that are not in the index either.
func (w *writable) checkTracked(ctx context.Context, names []string) error {
	tracked, err := w.entries(ctx, "", names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(tracked, func(e entry) bool { return e.path == name }) {
			return fault.New(fault.NotFound, "there is no file %s", filepath.Join(w.top, name)).WithField("file_paths")
		}
	}
	return nil
}

// checkFilters rejects files that a filter program of the configuration would convert. The filter does not run, and
// git would store the wrong content without it.
func (w *writable) checkFilters(ctx context.Context, names []string) error {
	c := w.command(append([]string{"check-attr", "-z", "filter", "--"}, names...)...)
	c.Dir = w.top
	res, err := w.env.Exec.Run(ctx, c)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || res.Truncated {
		return exitError("git check-attr", res)
	}
	fields := strings.Split(res.Stdout, "\x00") // path, attribute, value
	for i := 0; i+2 < len(fields); i += 3 {
		if slices.Contains(w.filters, "filter."+fields[i+2]) {
			return fault.New(fault.ValidationError, "%s needs the filter %s of the repository, which is not run", fields[i], fields[i+2]).
				WithReason("FILTERED").WithField("file_paths")
		}
	}
	return nil
}

// stage stages the files in a copy of the index and replaces the index with it.
func (w *writable) stage(ctx context.Context, cfg Config, names []string) error {
	dir, err := w.env.Root.Resolve(w.gitDir)
	if err != nil {
		return err
	}
	index, temp := filepath.Join(dir, "index"), filepath.Join(dir, "index.orch-"+rand.Text())
	defer func() { _ = w.env.Root.Remove(temp) }() // after success it has been renamed
	before, err := w.readIndex(index)
	if err != nil {
		return err
	}
	if before != nil {
		if _, err := w.env.Root.WriteAtomic(temp, before, 0o644); err != nil {
			return err
		}
	}
	file := w.env.Root.Abs(temp)
	args := append([]string{"-C", w.top, "add", "--"}, names...)
	res, err := w.runWriting(ctx, map[string]string{"GIT_INDEX_FILE": file}, nil, args...)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return stageError(exitError("git add", res), res.Stderr)
	}
	staged, err := w.entries(ctx, file, names...)
	if err == nil {
		err = w.checkSecrets(ctx, cfg, staged) // a file may have changed since checkContent read it
	}
	if err != nil {
		return err
	}
	return w.replaceIndex(index, temp, before)
}

// stageError returns the error of a failed git add.
func stageError(err error, output string) error {
	if strings.Contains(output, "ignored by one of your .gitignore files") {
		return fault.New(fault.ValidationError, "the repository ignores one of the files: %s", strings.TrimSpace(output)).
			WithReason("IGNORED").WithField("file_paths")
	}
	return err
}

// readIndex reads an index; nil when it does not exist yet.
func (w *writable) readIndex(rel string) ([]byte, error) {
	data, err := w.env.Root.ReadFile(rel, maxIndex)
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	return data, err
}

// replaceIndex replaces the index with the copy unless the index has changed since. It creates index.lock, the lock of
// git, as a folder: git only checks whether the name exists.
func (w *writable) replaceIndex(index, temp string, before []byte) error {
	busy := fault.New(fault.Conflict, "something else is changing the index of %s", w.top).WithHint("try again")
	lock := index + ".lock"
	if err := w.env.Root.Mkdir(lock, 0o700); err != nil {
		return busy
	}
	defer func() { _ = w.env.Root.Remove(lock) }() // the empty folder made above
	now, err := w.readIndex(index)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, before) {
		return busy
	}
	return w.env.Root.Rename(temp, index)
}
