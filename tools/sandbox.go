package tools

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// UndoFolder is the folder beside the workspaces that holds what sessions are undone with.
const UndoFolder = ".undo"

// Sandbox is the usual confinement of a child process: it reads the root, writes in the workspace of the
// task and at the further places, and has a loopback network of its own, so that tests can start servers.
// A call that somebody has approved writes in the root. One whose session writes in the project does so too, but for what
// makes git and orch run or obey something: repositories and settings.
func (e *Env) Sandbox(write ...string) proc.Sandbox {
	return e.sandbox(func(repository string) []string { return []string{repository} }, write...)
}

// GitSandbox is Sandbox for a script that calls git alone in a folder: it writes in the repository there, but for what makes git run or
// obey something. Other repositories stay as they are, since git obeys those that programs have made as well.
func (e *Env) GitSandbox(folder string) proc.Sandbox {
	own := ""
	for _, place := range e.Writable {
		for _, repository := range e.Repositories(place) {
			if below(folder, filepath.Dir(repository)) && len(repository) > len(own) {
				own = repository
			}
		}
	}
	return e.sandbox(func(repository string) []string {
		if repository != own {
			return []string{repository}
		}
		keep := make([]string, len(steersGit))
		for i, name := range steersGit {
			keep[i] = filepath.Join(repository, name)
		}
		return keep
	})
}

// steersGit are the files and folders of a repository that make git run something, or take its settings from elsewhere.
var steersGit = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "modules", "worktrees", "info"}

func (e *Env) sandbox(keep func(repository string) []string, write ...string) proc.Sandbox {
	s := proc.Sandbox{Read: e.Reach(), Write: slices.Concat([]string{e.Workspace}, e.Writable, write), Loopback: true}
	if e.Approval != "" {
		s.Write = append(s.Write, e.Reach()...)
		return s
	}
	for _, place := range e.Writable {
		s.Keep = append(s.Keep, filepath.Join(place, ".git", "hooks"), filepath.Join(place, ".git", "config"), filepath.Join(place, ".orch"))
		for _, repository := range e.Repositories(place) {
			if info, err := os.Lstat(repository); err == nil && !info.IsDir() {
				s.KeepInView = append(s.KeepInView, repository) // it names the folder of a repository
				continue
			}
			s.KeepInView = append(s.KeepInView, keep(repository)...)
		}
	}
	if len(e.Writable) > 0 {
		s.Keep = append(s.Keep, filepath.Join(filepath.Dir(e.Workspace), UndoFolder))
	}
	return s
}

const (
	// maxRepositories bounds the repositories below a place that are kept, maxLooked the files and folders that are looked at for them.
	maxRepositories, maxLooked = 64, 50_000
)

// madeAgain are folders that programs fill and that nobody keeps repositories in.
var madeAgain = []string{"node_modules", ".venv", "venv", "target", "__pycache__"}

// Repositories are the places named .git in a folder and below it, as they were when the call first asked.
func (e *Env) Repositories(place string) []string {
	if e.repositories == nil {
		e.repositories = map[string][]string{}
	}
	if _, known := e.repositories[place]; !known {
		e.repositories[place] = RepositoriesIn(place, filepath.Dir(e.Workspace))
	}
	return e.repositories[place]
}

// RepositoriesIn are the places named .git in a folder and below it, and the settings of repositories without a work tree, but for one
// folder, such as that of the workspaces: at most 64 of them, among the first 50,000 files.
func RepositoriesIn(place, without string) (found []string) {
	looked := 0
	_ = filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
		looked++
		switch {
		case err != nil && path == place || looked > maxLooked || len(found) == maxRepositories:
			return fs.SkipAll
		case d.Name() == ".git":
			found = append(found, path)
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Name() == "HEAD" && bare(filepath.Dir(path)):
			found = append(found, filepath.Join(filepath.Dir(path), "config"))
		case d.IsDir() && (err != nil || path == without || path != place && slices.Contains(madeAgain, d.Name())):
			return fs.SkipDir
		}
		return nil
	})
	return found
}

// bare reports whether git takes a folder for a repository.
func bare(folder string) bool {
	for _, name := range []string{"objects", "refs", "config"} {
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// Start is the absolute path of the directory in which a call starts that names none: the project of its session, else
// workspace/ of its task.
func (e *Env) Start() string {
	if project := e.Project(); len(project) > 0 {
		return project[0]
	}
	return filepath.Join(e.Workspace, "workspace")
}

// Project are the folders in which the session of the call works: the root, or what its client leaves of it. None outside of
// sessions.
func (e *Env) Project() []string {
	if e.Session == "" {
		return nil
	}
	folders := slices.DeleteFunc(e.Reach(), func(place string) bool { return place == e.Workspace })
	if len(folders) == 0 {
		return nil // the client works somewhere else
	}
	return folders
}

// Own returns where the absolute path of something in the workspace lies below the root, for what a tool itself
// writes, reads and removes there. The programs of the task write in the workspace as well: PROTECTED_PATH when a
// link on the way leads elsewhere. The last element is not followed.
func (e *Env) Own(path string) (string, error) {
	rel, err := e.Root.ResolveEntry(path)
	if err == nil && e.Root.Abs(rel) != path {
		err = fault.New(fault.ProtectedPath, "%s leads out of where the task works, by a link", path)
	}
	return rel, err
}

// Reach is what the programs of the task read: the root, or what the client of the task leaves of it (S2-050) with
// the workspace.
func (e *Env) Reach() []string {
	if e.Client == nil || len(e.Client.Roots) == 0 {
		return []string{e.Root.Name()}
	}
	roots := []string{e.Workspace}
	for _, root := range e.Client.Roots {
		switch {
		case below(root, e.Root.Name()):
			roots = append(roots, root)
		case below(e.Root.Name(), root):
			roots = append(roots, e.Root.Name())
		}
	}
	return roots
}

// below reports whether a path is a directory or lies below it.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
