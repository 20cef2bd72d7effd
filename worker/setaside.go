package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Git and orch obey files in certain places of a project, whoever created them. Programs of a session cannot change existing
// files of this kind (tools.Env.Sandbox). New ones are moved out of the project when the call has ended.

// plainRepository reports whether a new repository is as git init and git clone create it, or an additional work tree of an
// existing repository.
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
	hooks, _ := filepath.Glob(filepath.Join(path, "hooks", "*")) // the pattern is valid
	if slices.ContainsFunc(hooks, func(hook string) bool { return !strings.HasSuffix(hook, ".sample") }) {
		return false
	}
	config, err := os.ReadFile(filepath.Join(path, "config"))
	return err == nil && plainConfig(string(config))
}

// plainKeys are the settings of a repository that make git execute nothing, and read nothing outside the repository.
const plainKeys = `core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks
	extensions.objectformat extensions.refstorage remote.url remote.fetch branch.remote branch.merge branch.rebase user.name user.email`

// plainConfig reports whether a git configuration contains only plainKeys, in the format in which git writes them.
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
