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

// maxIndex is how large an index may be: 256 MiB.
const maxIndex = 256 << 20

type gitAddIn struct {
	FilePaths      []string `json:"file_paths" jsonschema:"Paths to files to stage: absolute, or relative to the top of the work tree as GIT_STATUS lists them; a tracked file that is gone is staged as deleted" minItems:"1" maxItems:"1000"`
	RepositoryPath string   `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
}

type gitAddOut struct {
	Staged []string `json:"staged" jsonschema:"Paths of the staged files, relative to the top of the work tree"`
}

// gitAdd is GIT_ADD (S0-102, S0-103, S0-109). Files are staged in a copy of the index, which takes the place
// of the index when all are staged and none holds a secret.
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
		paths, err := w.stageable(ctx, cfg, in.FilePaths)
		if err != nil {
			return gitAddOut{}, err
		}
		return gitAddOut{Staged: paths}, w.stage(ctx, cfg, paths)
	})
}

// stageable returns the paths relative to the top of the work tree, sorted and once each, when every one of
// them can be staged.
func (w *writable) stageable(ctx context.Context, cfg Config, paths []string) ([]string, error) {
	var names, gone []string
	for i, path := range paths {
		name, exists, err := w.candidate(cfg, path)
		if err != nil {
			return nil, fault.From(err).WithField("file_paths[" + strconv.Itoa(i) + "]")
		}
		if !exists {
			gone = append(gone, name)
		}
		names = append(names, name)
	}
	if len(gone) > 0 {
		if err := w.tracked(ctx, gone); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names, w.unfiltered(ctx, names)
}

// candidate checks one path: where it lies, its name and its content.
func (w *writable) candidate(cfg Config, path string) (name string, exists bool, err error) {
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
		return "", false, fault.New(fault.InvalidFormat, "%s is no file of the work tree %s", abs, w.top).WithReason("INVALID_PATH")
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return "", false, fault.New(fault.ProtectedPath, "%s belongs to the repository itself", abs)
		}
	}
	if err := foreign(w.env, abs); err != nil {
		return "", false, err
	}
	exists, err = w.harmless(cfg, rel)
	return name, exists, err
}

// harmless refuses what is no file, and files with secrets, before anything of them gets into the
// repository. A link is staged as what it names and not followed.
func (w *writable) harmless(cfg Config, rel string) (exists bool, err error) {
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

// tracked refuses missing files that the index does not know either.
func (w *writable) tracked(ctx context.Context, names []string) error {
	known, err := w.entries(ctx, "", names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(known, func(e entry) bool { return e.path == name }) {
			return fault.New(fault.NotFound, "there is no file %s", filepath.Join(w.top, name)).WithField("file_paths")
		}
	}
	return nil
}

// unfiltered refuses files whose content a program of the configuration would have to convert: it is not
// run, and without it git would store something else than is meant.
func (w *writable) unfiltered(ctx context.Context, names []string) error {
	c := w.command(append([]string{"check-attr", "-z", "filter", "--"}, names...)...)
	c.Dir = w.top
	res, err := w.env.Exec.Run(ctx, c)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || res.Truncated {
		return failed("git check-attr", res)
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

// stage stages the files in a copy of the index and puts it in the place of the index.
func (w *writable) stage(ctx context.Context, cfg Config, names []string) error {
	dir, err := w.env.Root.Resolve(w.gitDir)
	if err != nil {
		return err
	}
	index, temp := filepath.Join(dir, "index"), filepath.Join(dir, "index.orch-"+rand.Text())
	defer func() { _ = w.env.Root.Remove(temp) }() // it is gone when all went well
	before, err := w.index(index)
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
	res, err := w.change(ctx, map[string]string{"GIT_INDEX_FILE": file}, nil, args...)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return notStaged(failed("git add", res), res.Stderr)
	}
	staged, err := w.entries(ctx, file, names...)
	if err == nil {
		err = w.noSecrets(ctx, cfg, staged) // a file may have changed since it was read
	}
	if err != nil {
		return err
	}
	return w.swap(index, temp, before)
}

func notStaged(err error, said string) error {
	if strings.Contains(said, "ignored by one of your .gitignore files") {
		return fault.New(fault.ValidationError, "the repository ignores one of the files: %s", strings.TrimSpace(said)).
			WithReason("IGNORED").WithField("file_paths")
	}
	return err
}

// index reads an index, nil when there is none yet.
func (w *writable) index(rel string) ([]byte, error) {
	data, err := w.env.Root.ReadFile(rel, maxIndex)
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	return data, err
}

// swap puts the copy in the place of the index unless that has changed. The lock is the one of git, which
// does not mind that it is a folder.
func (w *writable) swap(index, temp string, before []byte) error {
	busy := fault.New(fault.Conflict, "something else is changing the index of %s", w.top).WithHint("try again")
	lock := index + ".lock"
	if err := w.env.Root.Mkdir(lock, 0o700); err != nil {
		return busy
	}
	defer func() { _ = w.env.Root.Remove(lock) }() // an empty folder that is ours
	now, err := w.index(index)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, before) {
		return busy
	}
	return w.env.Root.Rename(temp, index)
}
