package build

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// managerSettings returns the settings files, in a project or a home directory, that determine where a package manager
// downloads from and which programs it runs. A package manager has network access, so a task that writes such a file
// could reach services on this machine.
func managerSettings() []string {
	return []string{
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pip/pip.conf", ".config/pip/pip.conf", "pip.conf", ".cargo/config", ".cargo/config.toml",
		".config/go/env", ".gitconfig", ".config/git/config", ".netrc", ".rustup/settings.toml",
	}
}

// rejectSettings returns FORBIDDEN if the package manager would read settings that the task could have written. Only
// the operator chooses registries.
func (j job) rejectSettings() error {
	home := project{env: j.env, dir: filepath.Join(j.env.Workspace, "temp")}
	for _, p := range []project{j.project, home} {
		for _, file := range managerSettings() {
			if p.has(file) {
				return p.settingsError(file)
			}
		}
	}
	if err := j.checkToolchain(); err != nil {
		return err
	}
	return j.rejectSettingsAbove()
}

// settingsError returns FORBIDDEN for a settings file that the task could have written.
func (p project) settingsError(file string) error {
	return fault.New(fault.Forbidden, "%s in %s could choose where packages come from", file, p.dir).WithReason("MANAGER_SETTINGS").
		WithHint("remove it; the operator names registries in the settings npm_registry and pip_index")
}

// rejectSettingsAbove is like rejectSettings, for the folders above the project. In the root itself it rejects only
// settings that are newer than the task.
func (j job) rejectSettingsAbove() error {
	root := j.root()
	for dir := filepath.Dir(j.dir); len(j.manager.parentSettings) > 0 && len(dir) > len(root.dir); dir = filepath.Dir(dir) {
		folder := project{env: j.env, dir: dir}
		for _, file := range append(j.manager.manifests, j.manager.parentSettings...) {
			if folder.has(file) {
				return folder.settingsError(file)
			}
		}
	}
	for _, file := range j.manager.parentSettings {
		if !root.olderThan(j.env.Since, []string{file}) {
			return root.settingsError(file)
		}
	}
	return nil
}

// checkToolchain returns FORBIDDEN for a Rust tool chain file that differs from that of the root, because the file may
// name a program of the task.
func (j job) checkToolchain() error {
	if j.manager.name != "cargo" {
		return nil
	}
	for _, file := range []string{"rust-toolchain", "rust-toolchain.toml"} {
		own, err := j.read(file)
		if err != nil {
			return err
		}
		rootFile, err := j.root().read(file)
		if err != nil {
			return err
		}
		if own != nil && (!bytes.Equal(own, rootFile) || !j.root().olderThan(j.env.Since, []string{file})) {
			return fault.New(fault.Forbidden, "%s in %s could choose what is run as cargo", file, j.dir).WithReason("MANAGER_SETTINGS").
				WithHint("remove it, or make it equal to that of the root")
		}
	}
	return nil
}

// root returns the root as a project.
func (j job) root() project { return project{env: j.env, dir: j.env.Root.Name()} }

// registryLines matches the lines with which a project chooses its package registry.
var registryLines = regexp.MustCompile(`(?m)^\s*(?:"?(?:@[^\s:=]+:)?registry"?[ \t]*[=: ]|npmRegistryServer|npmScopes|(?:extra-)?index-url|find-links|no-index|(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index)\b|\[\[tool\.(?:poetry\.source|uv\.index|pdm\.source)\]\]|\[\[source\]\]).*`)

// otherRegistry returns a note if a setting in the root takes the package from a different registry than this
// installation does. Somebody else may have published a package of the same name in the registry of this installation.
// It returns "" when there is no such setting or the operator configured a registry.
func (j job) otherRegistry() (string, error) {
	files, configured := []string{".npmrc", ".yarnrc", ".yarnrc.yml"}, j.cfg.NPMRegistry
	switch j.manager.name {
	case "npm", "yarn":
	case "pip":
		files, configured = []string{"requirements.txt", "requirements.lock", "pyproject.toml", "Pipfile", "pip.conf"}, j.cfg.PipIndex
	default:
		return "", nil
	}
	for _, file := range files {
		data, err := j.root().read(file)
		if err != nil {
			return "", err
		}
		for _, line := range registryLines.FindAllString(string(data), -1) {
			scope, _, scoped := strings.Cut(strings.TrimLeft(line, "\" \t"), ":registry")
			if scoped && !strings.HasPrefix(j.name, scope+"/") {
				continue
			}
			if configured == "" && !regexp.MustCompile(`https://(registry\.npmjs\.org|registry\.yarnpkg\.com|pypi\.org/simple)/?["']?\s*$`).MatchString(line) {
				return file + " of the project selects a different registry: " + shorten(strings.TrimSpace(line)), nil
			}
		}
	}
	return "", nil
}
