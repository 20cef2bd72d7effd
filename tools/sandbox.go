package tools

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// UndoFolder is the folder next to the workspaces that holds the backups for undoing sessions.
const UndoFolder = ".undo"

// Sandbox returns the default confinement of a child process: it reads the root, writes in the workspace of the task
// and in the given directories, and has a private loopback network, so that tests can start servers.
//
// An approved call may write in every directory that it may read. A call without approval may also write in the
// directories of Env.Writable, except in files that control what git and orch execute: repositories and settings.
func (e *Env) Sandbox(write ...string) proc.Sandbox {
	return e.sandbox(func(repository string) []string { return []string{repository} }, write...)
}

// GitSandbox returns the confinement of a script that runs only git, in the folder. The script may write in the
// repository that contains the folder if it lies in Env.Writable, except in files that control what git executes. Other
// repositories stay read-only: programs of the task may have created them, and git would execute the programs that they
// configure.
func (e *Env) GitSandbox(folder string) proc.Sandbox {
	writable := ""
	for _, dir := range e.Writable {
		for _, repository := range e.Repositories(dir) {
			if isWithin(folder, filepath.Dir(repository)) && len(repository) > len(writable) {
				writable = repository
			}
		}
	}
	return e.sandbox(func(repository string) []string {
		if repository != writable {
			return []string{repository}
		}
		protected := make([]string, len(gitControlFiles))
		for i, name := range gitControlFiles {
			protected[i] = filepath.Join(repository, name)
		}
		return protected
	})
}

// gitControlFiles are the files and folders of a repository that make git run programs or read settings from
// elsewhere.
var gitControlFiles = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "modules", "worktrees", "info"}

// sandbox returns the confinement of a child process. protect returns the paths in a repository that stay read-only.
func (e *Env) sandbox(protect func(repository string) []string, write ...string) proc.Sandbox {
	s := proc.Sandbox{Read: e.Reach(), Write: slices.Concat([]string{e.Workspace}, e.Writable, write), Loopback: true}
	if e.Approval != "" {
		s.Write = append(s.Write, e.Reach()...)
		return s
	}
	for _, dir := range e.Writable {
		s.Keep = append(s.Keep, filepath.Join(dir, ".git", "hooks"), filepath.Join(dir, ".git", "config"), filepath.Join(dir, ".orch"))
		for _, repository := range e.Repositories(dir) {
			if info, err := os.Lstat(repository); err == nil && !info.IsDir() {
				s.KeepInView = append(s.KeepInView, repository) // a .git file points to the repository
				continue
			}
			s.KeepInView = append(s.KeepInView, protect(repository)...)
		}
	}
	if len(e.Writable) > 0 {
		s.Keep = append(s.Keep, filepath.Join(filepath.Dir(e.Workspace), UndoFolder))
	}
	return s
}

const (
	// maxRepositories limits the repositories below a directory that are protected, maxVisited the files and folders
	// that are searched for them.
	maxRepositories, maxVisited = 64, 50_000
)

// generatedFolders are folders with generated files, in which nobody keeps repositories.
var generatedFolders = []string{"node_modules", ".venv", "venv", "target", "__pycache__"}

// Repositories returns the .git files and folders in a directory and below it, as they were on the first call.
func (e *Env) Repositories(dir string) []string {
	if e.repositories == nil {
		e.repositories = map[string][]string{}
	}
	if _, cached := e.repositories[dir]; !cached {
		e.repositories[dir] = RepositoriesIn(dir, filepath.Dir(e.Workspace))
	}
	return e.repositories[dir]
}

// RepositoriesIn returns the .git files and folders in a directory and below it, and the configuration files of bare
// repositories there. It skips the folder excluded, such as that of the workspaces. It returns at most 64 paths, and
// searches at most 50,000 files.
func RepositoriesIn(dir, excluded string) (found []string) {
	visited := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case err != nil && path == dir || visited > maxVisited || len(found) == maxRepositories:
			return fs.SkipAll
		case d.Name() == ".git":
			found = append(found, path)
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Name() == "HEAD" && isBareRepository(filepath.Dir(path)):
			found = append(found, filepath.Join(filepath.Dir(path), "config"))
		case d.IsDir() && (err != nil || path == excluded || path != dir && slices.Contains(generatedFolders, d.Name())):
			return fs.SkipDir
		}
		return nil
	})
	return found
}

// isBareRepository reports whether a folder that contains a file HEAD is a bare git repository.
func isBareRepository(folder string) bool {
	for _, name := range []string{"objects", "refs", "config"} {
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// Start returns the absolute path of the default working directory of a call: the project of its session, else
// workspace/ of its task.
func (e *Env) Start() string {
	if project := e.Project(); len(project) > 0 {
		return project[0]
	}
	return filepath.Join(e.Workspace, "workspace")
}

// Project returns the folders in which the session of the call works: the root, or the part of it that the client
// permits. It is empty outside of sessions.
func (e *Env) Project() []string {
	if e.Session == "" {
		return nil
	}
	folders := slices.DeleteFunc(e.Reach(), func(folder string) bool { return folder == e.Workspace })
	if len(folders) == 0 {
		return nil // the client works somewhere else
	}
	return folders
}

// Own resolves the absolute path of a workspace file that the tool itself reads, writes or removes, and returns it
// relative to the root. The programs of the task can write in the workspace as well: if they have placed a link in the
// path that leads elsewhere, Own returns PROTECTED_PATH. It does not follow a link in the last element.
func (e *Env) Own(path string) (string, error) {
	rel, err := e.Root.ResolveEntry(path)
	if err == nil && e.Root.Abs(rel) != path {
		err = fault.New(fault.ProtectedPath, "%s leads out of the workspace of the task by a link", path)
	}
	return rel, err
}

// Reach returns the directories that the programs of the task may read: the root or, if the client of the task permits
// only a part of it (S2-050), that part and the workspace.
func (e *Env) Reach() []string {
	if e.Client == nil || len(e.Client.Roots) == 0 {
		return []string{e.Root.Name()}
	}
	roots := []string{e.Workspace}
	for _, root := range e.Client.Roots {
		switch {
		case isWithin(root, e.Root.Name()):
			roots = append(roots, root)
		case isWithin(e.Root.Name(), root):
			roots = append(roots, e.Root.Name())
		}
	}
	return roots
}

// isWithin reports whether path is dir or lies below it.
func isWithin(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
