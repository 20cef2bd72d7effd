package worker

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Git and orch obey what they find in certain places of a project, whoever has put it there. What is there programs of a session cannot
// change (tools.Env.Sandbox); what they make there and would be obeyed is set aside when their call has ended.

// guardObeyed returns what moves the places out of the project that a call has made and that make git or orch run or obey something:
// PROTECTED_PATH says where the first of them is then. A call that a person has approved may make them.
func (a *attempt) guardObeyed() (ended func() error) {
	if a.env.Approval != "" || len(a.env.Writable) == 0 {
		return func() error { return nil }
	}
	before := a.obeyed(a.env.Repositories)
	return func() error {
		working := filepath.Dir(a.env.Workspace)
		now := a.obeyed(func(place string) []string { return tools.RepositoriesIn(place, working) })
		var first error
		for _, path := range now {
			if slices.Contains(before, path) || plainRepository(path, before) {
				continue
			}
			if err := a.setAside(path); first == nil {
				first = err
			}
		}
		return first
	}
}

// obeyed lists what git and orch obey in the project: repositories, what leads those to other settings, and settings of orch.
func (a *attempt) obeyed(repositories func(place string) []string) (found []string) {
	for _, place := range a.env.Writable {
		candidates := []string{filepath.Join(place, ".orch")}
		for _, repository := range repositories(place) {
			found = append(found, repository)
			candidates = append(candidates, filepath.Join(repository, "commondir"), filepath.Join(repository, "config.worktree"))
		}
		for _, path := range candidates {
			if _, err := os.Lstat(path); err == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

func (a *attempt) setAside(path string) error {
	aside := filepath.Join(a.env.Workspace, "temp", "set-aside-"+rand.Text()+filepath.Base(path))
	if err := os.Rename(path, aside); err != nil {
		return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey, and it cannot be moved away: %w", path, err)
	}
	return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey; it lies in %s now", path, aside).
		WithHint("make a repository with git init, in a command of its own")
}

// plainRepository reports whether a new repository is as git init and git clone make it, or a further work tree of one that was there.
func plainRepository(path string, before []string) bool {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return false
	case filepath.Base(path) == "config": // of a repository without a work tree
		config, err := os.ReadFile(path)
		return err == nil && info.Mode().IsRegular() && plainConfig(string(config))
	case filepath.Base(path) != ".git":
		return false
	case info.Mode().IsRegular():
		text, err := os.ReadFile(path)
		target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		return err == nil && ok && slices.ContainsFunc(before, func(known string) bool { return below(filepath.Clean(target), known) })
	case !info.IsDir():
		return false
	}
	hooks, _ := filepath.Glob(filepath.Join(path, "hooks", "*")) // the pattern is right
	if slices.ContainsFunc(hooks, func(hook string) bool { return !strings.HasSuffix(hook, ".sample") }) {
		return false
	}
	config, err := os.ReadFile(filepath.Join(path, "config"))
	return err == nil && plainConfig(string(config))
}

// plainKeys are the settings of a repository that make git run nothing and read nothing elsewhere.
const plainKeys = `core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks
	extensions.objectformat extensions.refstorage remote.url remote.fetch branch.remote branch.merge branch.rebase user.name user.email`

// plainConfig reports whether the settings of a repository are such keys alone, in the form in which git writes them.
func plainConfig(text string) bool {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "["); ok {
			name, rest, ended := strings.Cut(head, "]")
			if !ended || rest != "" {
				return false
			}
			section, _, _ = strings.Cut(name, " ")
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		known := slices.Contains(strings.Fields(plainKeys), strings.ToLower(section+"."+strings.TrimSpace(key)))
		if line != "" && (!known || strings.HasSuffix(line, "\\")) {
			return false
		}
	}
	return true
}
