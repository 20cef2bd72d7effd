package git

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// maxScanned is the maximum size, in bytes, of a file that is searched for secrets. Larger files are rejected.
const maxScanned = 16 << 20

// writable is a repository that a call changes. Its directories are real absolute paths inside the root, and none lies
// in the workspace of another task.
type writable struct {
	*repository

	// gitDir is the git directory of the work tree. common is the git directory that all work trees of the repository
	// share.
	gitDir, common string
}

// openWritable opens a repository that the call changes.
func openWritable(ctx context.Context, env *tools.Env, path string) (*writable, error) {
	r, err := openRepository(ctx, env, path)
	if err != nil {
		return nil, err
	}
	for _, dir := range append([]string{r.top}, r.gitDirs...) {
		if err := checkForeign(env, dir); err != nil {
			return nil, fault.From(err).WithField("repository_path")
		}
	}
	w := &writable{repository: r, gitDir: r.gitDirs[0], common: r.gitDirs[1]}
	return w, w.checkWorkTree()
}

// checkWorkTree rejects a repository in the workspace of the task if its work tree lies outside of the workspace. The
// task may have written the hooks of such a repository, and they could write in the work tree.
func (w *writable) checkWorkTree() error {
	own := func(path string) bool { return isWithin(path, w.env.Workspace) }
	if own(w.top) || (!own(w.gitDir) && !own(w.common)) {
		return nil
	}
	return fault.New(fault.ProtectedPath, "the work tree %s of a repository in the workspace of the task lies outside of it", w.top).
		WithField("repository_path").WithHint("use the repository that the work tree belongs to")
}

// checkForeign returns PROTECTED_PATH for a path in the workspace of another task.
func checkForeign(env *tools.Env, path string) error {
	if isWithin(path, filepath.Dir(env.Workspace)) && !isWithin(path, env.Workspace) && path != filepath.Dir(env.Workspace) {
		return fault.New(fault.ProtectedPath, "%s belongs to the workspace of another task", path)
	}
	return nil
}

// isWithin reports whether path is dir or lies below it. Both paths are clean.
func isWithin(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// runWriting runs git with write access to the repository and to the given directories. An exit status other than 0
// is not an error.
func (w *writable) runWriting(ctx context.Context, extra map[string]string, write []string, args ...string) (proc.Result, error) {
	c := w.command(args...)
	c.Sandbox.Write = append([]string{w.gitDir, w.common}, write...)
	maps.Copy(c.Env, extra)
	return w.env.Exec.Run(ctx, c)
}

// entry is one file of an index.
type entry struct{ mode, object, path string }

// entries returns the entries of an index file for the paths, or all entries without paths. index "" means the index of
// the repository.
func (w *writable) entries(ctx context.Context, index string, paths ...string) ([]entry, error) {
	c := w.command(append([]string{"ls-files", "--stage", "-z", "--full-name", "--"}, paths...)...)
	c.Dir, c.Limit = w.top, maxIndex
	if index != "" {
		c.Env["GIT_INDEX_FILE"] = index
	}
	res, err := w.env.Exec.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 || res.Truncated {
		return nil, exitError("git ls-files", res)
	}
	var found []entry
	for line := range strings.SplitSeq(res.Stdout, "\x00") {
		info, path, _ := strings.Cut(line, "\t")
		if fields := strings.Fields(info); len(fields) == 3 {
			found = append(found, entry{mode: fields[0], object: fields[1], path: path})
		}
	}
	return found, nil
}

// checkSecrets rejects entries with the name or the content of a secret (S0-103, A-24).
func (w *writable) checkSecrets(ctx context.Context, cfg Config, entries []entry) error {
	for _, e := range entries {
		if cfg.IsSecretFile(e.path) {
			return secretName(e.path)
		}
		if e.mode == "160000" { // a commit of a submodule
			continue
		}
		data, err := w.blob(ctx, e)
		if err != nil {
			return err
		}
		if rule, found := cfg.FindSecret(data); found {
			return secretContent(e.path, rule)
		}
	}
	return nil
}

// blob returns the content of an entry.
func (w *writable) blob(ctx context.Context, e entry) ([]byte, error) {
	var content bytes.Buffer
	size, err := w.run(ctx, "cat-file", "-s", e.object)
	switch {
	case err != nil:
		return nil, err
	case size.ExitCode != 0:
		return nil, exitError("git cat-file", size)
	case parseCount(strings.TrimSpace(size.Stdout)) > maxScanned:
		return nil, fault.New(fault.ValidationError, "%s is larger than %d bytes, too large to be searched for secrets", e.path, maxScanned).
			WithReason("SIZE_LIMIT_EXCEEDED")
	}
	c := w.command("cat-file", "blob", e.object)
	c.Stdout = &content
	res, err := w.env.Exec.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = exitError("git cat-file", res)
	}
	return content.Bytes(), err
}

func secretName(path string) error {
	return fault.New(fault.SecretDetected, "%s has the name of a file with secrets", path).
		WithHint("leave the file out and add its name to .gitignore")
}

func secretContent(path, rule string) error {
	return fault.New(fault.SecretDetected, "%s holds what looks like a secret (rule %s)", path, rule).
		WithHint("keep the secret out of the repository and refer to it, for example by an environment variable")
}
