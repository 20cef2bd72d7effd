// Package undo records the changes that the calls of a session make below a root, so that they can be undone.
//
// It uses a separate git repository in a folder of the workspaces, with the root as its work tree. The affected files
// are committed before and after each call, on a branch for the session. Contents are stored unchanged, ignoring the
// attributes of the project, and uncompressed.
package undo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
)

const (
	// MaxFiles is the default of Store.Max.
	MaxFiles = 50_000
	// maxTime bounds one snapshot of the root.
	maxTime = 30 * time.Second
	// recount is how long a root is treated as too large before its files are counted again.
	recount = 10 * time.Minute
	// maxListed bounds the output of a git command, in bytes.
	maxListed = 32 << 20
)

// skipped returns the names of folders that are not recorded: their content can be generated from the recorded files.
func skipped() []string {
	return []string{".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", ".gradle", ".orch"}
}

// Store records the changes below one root. It is safe for concurrent use in one process.
type Store struct {
	root *pathguard.Root
	exec *proc.Runner
	// dir is the folder of the repository. It is in working, the folder of the workspaces.
	dir, working string
	now          func() time.Time

	// Lives reports whether a session still has its workspace. When the store is opened, it removes the records of
	// sessions without one. If Lives is nil, all records are kept.
	Lives func(session string) bool
	// Redact returns the content of a file without secrets, for diffs. If Redact is nil, diffs have the content as it is.
	Redact func(content []byte) []byte
	// Max is the maximum number of files in a root. A larger root is not recorded before a program runs.
	Max int

	mu    sync.Mutex
	ready bool
	// largeUntil is the time until which the root is treated as too large.
	largeUntil time.Time
}

// New returns the store of a root. Its repository is in folder, a name below working. working is the absolute path of
// the workspaces.
func New(root *pathguard.Root, exec *proc.Runner, working, folder string) *Store {
	return &Store{root: root, exec: exec, working: working, dir: filepath.Join(working, folder), now: time.Now, Max: MaxFiles}
}

// Change records one call.
type Change struct {
	store         *Store
	session, call string
	paths         []string
	// before is the commit of the state before the call.
	before string
	// unrecorded makes commits that are on no branch, restores such of an undo.
	unrecorded, restores bool
}

// Changed is a path that a call has changed.
type Changed struct {
	// Path is relative to the root. How is A for added, M for modified, D for deleted, or T for a changed file type.
	Path, How string
}

// Begin records the state of the paths before a call. Paths are relative to the root. Without paths it records all
// files of the root, or returns ErrTooLarge when there are more than Max.
func (s *Store) Begin(ctx context.Context, session, call string, paths []string) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	c := &Change{store: s, session: session, call: call, paths: paths}
	files, err := s.filesAt(ctx, paths)
	if err != nil {
		return nil, err
	}
	c.before, err = c.commit(ctx, files, "before")
	return c, err
}

// End records the state after the call and returns the changes.
func (c *Change) End(ctx context.Context) ([]Changed, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := s.filesAt(ctx, c.paths)
	if err != nil {
		return nil, err
	}
	after, err := c.commit(ctx, files, "after")
	if err != nil {
		return nil, err
	}
	return s.diff(ctx, c.before, after, c.paths)
}

const (
	// branches is the prefix of the branches of sessions.
	branches = "refs/undo/"
	// restores is the prefix of the branches of what undos have restored, by the session whose calls were undone. They are not
	// among its calls: an undo undoes no undo.
	restores = "refs/undone/"
)

// sessionOf returns the session of a branch.
func sessionOf(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, branches), restores)
}

// commit records the current files in a commit on a branch of the session and returns its id. The message contains
// when ("before" or "after"), the call, the time, and its paths.
func (c *Change) commit(ctx context.Context, files listing, when string) (string, error) {
	if files.removed != "" {
		if _, err := c.store.git(ctx, files.removed, "git update-index --force-remove -z --stdin"); err != nil {
			return "", err
		}
	}
	message := []string{when + " " + c.call, "", c.store.now().UTC().Format(time.RFC3339Nano)}
	for _, path := range c.paths {
		message = append(message, strconv.Quote(path))
	}
	branch := branches
	if c.restores {
		branch = restores
	}
	variables := []string{"UNDO_REF=" + branch + c.session, "UNDO_MESSAGE=" + strings.Join(message, "\n")}
	if c.unrecorded {
		variables = append(variables, "UNDO_UNRECORDED=1")
	}
	return c.store.git(ctx, files.existing, addScript+commitScript, variables...)
}

// ErrTooLarge is the error for a root with more than Max files.
var ErrTooLarge = errors.New("the root has too many files to record them before a program runs")

// open creates the repository unless it was opened before, and removes old records. s.mu must be held.
func (s *Store) open(ctx context.Context) error {
	if s.ready {
		return nil
	}
	rel, err := s.root.Resolve(s.dir)
	if err != nil {
		return err
	}
	if err := s.root.MkdirAll(rel, 0o700); err != nil {
		return err
	}
	_, err = s.git(ctx, "", `git init -q "$GIT_DIR" && git config core.compression 0 && git config gc.auto 0 && git config core.protectNTFS false && git config core.protectHFS false && mkdir -p "$GIT_DIR/info" &&
printf '* -text -filter -ident -working-tree-encoding -merge\n' >"$GIT_DIR/info/attributes"`)
	if err == nil {
		err = s.sweep(ctx)
	}
	s.ready = err == nil
	return err
}

// sweep removes the records of sessions for which Lives returns false.
func (s *Store) sweep(ctx context.Context) error {
	if s.Lives == nil {
		return nil
	}
	refs, err := s.git(ctx, "", "git for-each-ref --format='%(refname)' "+branches+" "+restores)
	if err != nil {
		return err
	}
	var gone strings.Builder
	for ref := range strings.FieldsSeq(refs) {
		if !s.Lives(sessionOf(ref)) {
			gone.WriteString("delete " + ref + "\n")
		}
	}
	if gone.Len() == 0 {
		return nil
	}
	_, err = s.git(ctx, gone.String(), "git update-ref --stdin && git gc -q --prune=now")
	return err
}

// listRoot lists the files of the root to record, each name ending with NUL, or returns ErrTooLarge. The list includes
// files of repositories below the root. It omits skipped folders and files that git cannot store, such as pipes.
func (s *Store) listRoot() (string, error) {
	if s.now().Before(s.largeUntil) {
		return "", ErrTooLarge
	}
	var list strings.Builder
	remaining := s.Max
	err := filepath.WalkDir(s.root.Name(), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // files that cannot be read are not recorded
		case entry.IsDir() && (path == s.working || slices.Contains(skipped(), entry.Name())):
			return filepath.SkipDir
		}
		if remaining--; remaining < 0 {
			return ErrTooLarge
		}
		if rel, err := filepath.Rel(s.root.Name(), path); err == nil && storable(entry) {
			list.WriteString(rel + "\x00")
		}
		return nil
	})
	if errors.Is(err, ErrTooLarge) {
		s.largeUntil = s.now().Add(recount)
	}
	return list.String(), err
}

// storable reports whether git can store an entry: a regular file or a link that is not named .git.
func storable(entry fs.DirEntry) bool {
	return (entry.Type().IsRegular() || entry.Type() == fs.ModeSymlink) && !strings.EqualFold(entry.Name(), ".git")
}

// listing contains two lists of files for git: each name ends with NUL.
type listing struct {
	// existing are the existing files, removed the recorded files that no longer exist.
	existing, removed string
}

// filesAt lists the existing files at and below paths, and the removed ones. Without paths it lists all files of the
// root.
func (s *Store) filesAt(ctx context.Context, paths []string) (listing, error) {
	there, err := s.existing(ctx, paths)
	if err != nil {
		return listing{}, err
	}
	recorded, err := s.git(ctx, "", "git ls-files -z")
	if err != nil {
		return listing{}, err
	}
	present := map[string]bool{}
	for path := range strings.SplitSeq(there, "\x00") {
		present[path] = true
	}
	var gone strings.Builder
	for path := range strings.SplitSeq(recorded, "\x00") {
		if !present[path] && path != "" && covers(paths, path) {
			gone.WriteString(path + "\x00")
		}
	}
	return listing{there, gone.String()}, nil
}

// existing lists the existing files at and below paths, each name ending with NUL.
func (s *Store) existing(ctx context.Context, paths []string) (string, error) {
	if len(paths) == 0 {
		return s.listRoot()
	}
	var list strings.Builder
	for _, path := range paths {
		info, err := s.root.Lstat(path)
		switch {
		case err != nil:
			continue
		case !info.IsDir():
			if storable(fs.FileInfoToDirEntry(info)) {
				list.WriteString(path + "\x00")
			}
			continue
		}
		err = s.root.Walk(ctx, path, func(rel string, entry fs.DirEntry) error {
			if storable(entry) {
				list.WriteString(rel + "\x00")
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return list.String(), nil
}

// addScript adds the files on its input to the index. A file may replace a folder and vice versa.
const addScript = "git update-index --add --remove --replace -z --stdin || exit\n"

// commitScript commits the index on a branch, or on none if UNDO_UNRECORDED is set, and prints the commit id.
const commitScript = `tree=$(git write-tree) || exit
parent=$(git rev-parse -q --verify "$UNDO_REF")
c=$(git commit-tree "$tree" ${parent:+-p "$parent"} -m "$UNDO_MESSAGE") || exit
[ -n "$UNDO_UNRECORDED" ] || git update-ref "$UNDO_REF" "$c" || exit
echo "$c"
`

// git runs a shell script with git's variables set for the repository and the root. It returns the output without the
// final line end. variables are added to the environment as "NAME=value".
func (s *Store) git(ctx context.Context, stdin, script string, variables ...string) (string, error) {
	env := map[string]string{
		"GIT_DIR": filepath.Join(s.dir, "git"), "GIT_WORK_TREE": s.root.Name(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
		"GIT_AUTHOR_NAME": "orch", "GIT_AUTHOR_EMAIL": "orch", "GIT_COMMITTER_NAME": "orch", "GIT_COMMITTER_EMAIL": "orch",
		"GIT_OPTIONAL_LOCKS": "0", "HOME": s.dir,
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	var out bytes.Buffer // file names are bytes
	res, err := s.exec.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", script}, Dir: s.root.Name(), Stdin: stdin, Timeout: maxTime, Stdout: &out, Env: env,
		Sandbox: proc.Sandbox{Read: []string{s.root.Name()}, Write: []string{s.dir}},
	})
	switch {
	case err != nil:
		return "", err
	case res.ExitCode != 0:
		return "", fault.New(fault.ExecFailed, "git cannot record the files of the root: %s", strings.TrimSpace(res.Stderr))
	case out.Len() > maxListed:
		return "", fault.New(fault.ExecFailed, "the output of git about the root is too long")
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// covers reports whether a path is one of the paths of a call, or below one of them. Empty paths cover everything.
func covers(paths []string, path string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return p == path || strings.HasPrefix(path, p+"/") })
}

// diff lists the differences between two commits at the paths of a call.
func (s *Store) diff(ctx context.Context, before, after string, paths []string) ([]Changed, error) {
	text, err := s.git(ctx, "", "git diff-tree -r -z --no-renames --name-status "+before+" "+after)
	if err != nil || text == "" {
		return nil, err
	}
	var all []Changed
	parts := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		if !covers(paths, parts[i+1]) {
			continue
		}
		all = append(all, Changed{Path: parts[i+1], How: parts[i]})
	}
	return all, nil
}
