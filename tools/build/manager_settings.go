package build

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// settings are the files, in a project or a home, by which a task could tell a manager where packages come from and
// what to run: with the network, that would lead to the services of this machine.
func settings() []string {
	return []string{
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pip/pip.conf", ".config/pip/pip.conf", "pip.conf", ".cargo/config", ".cargo/config.toml",
		".config/go/env", ".gitconfig", ".config/git/config", ".netrc", ".rustup/settings.toml",
	}
}

// unconfigured refuses to install where a manager would obey settings that the task could have written. Registries are
// a matter of the operator.
func (j job) unconfigured() error {
	home := project{env: j.env, dir: filepath.Join(j.env.Workspace, "temp")}
	for _, place := range []project{j.project, home} {
		for _, file := range settings() {
			if place.has(file) {
				return place.configured(file)
			}
		}
	}
	if err := j.sameToolchain(); err != nil {
		return err
	}
	return j.unconfiguredAbove()
}

func (p project) configured(file string) error {
	return fault.New(fault.Forbidden, "%s in %s could choose where packages come from", file, p.dir).WithReason("MANAGER_SETTINGS").
		WithHint("remove it; the operator names registries in the settings npm_registry and pip_index")
}

// unconfiguredAbove looks into the folders above the project. Those of the root count as they were before the task.
func (j job) unconfiguredAbove() error {
	root := j.root()
	for dir := filepath.Dir(j.dir); len(j.manager.climbs) > 0 && len(dir) > len(root.dir); dir = filepath.Dir(dir) {
		place := project{env: j.env, dir: dir}
		for _, file := range append(j.manager.manifests, j.manager.climbs...) {
			if place.has(file) {
				return place.configured(file)
			}
		}
	}
	for _, file := range j.manager.climbs {
		if !root.olderThan(j.env.Since, []string{file}) {
			return root.configured(file)
		}
	}
	return nil
}

// sameToolchain refuses a choice of another tool chain for Rust, which may be a program of the task, than that of the root.
func (j job) sameToolchain() error {
	if j.manager.name != "cargo" {
		return nil
	}
	for _, file := range []string{"rust-toolchain", "rust-toolchain.toml"} {
		mine, err := j.read(file)
		if err != nil {
			return err
		}
		theirs, err := j.root().read(file)
		if err != nil {
			return err
		}
		if mine != nil && (!bytes.Equal(mine, theirs) || !j.root().olderThan(j.env.Since, []string{file})) {
			return fault.New(fault.Forbidden, "%s in %s could choose what is run as cargo", file, j.dir).WithReason("MANAGER_SETTINGS").
				WithHint("remove it, or let it be that of the root")
		}
	}
	return nil
}

// root is the project in the root.
func (j job) root() project { return project{env: j.env, dir: j.env.Root.Name()} }

// chosen are the lines by which a project takes packages from a registry of its own.
var chosen = regexp.MustCompile(`(?m)^\s*(?:"?(?:@[^\s:=]+:)?registry"?[ \t]*[=: ]|npmRegistryServer|npmScopes|(?:extra-)?index-url|find-links|no-index|(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index)\b|\[\[tool\.(?:poetry\.source|uv\.index|pdm\.source)\]\]|\[\[source\]\]).*`)

// otherRegistry returns what in the root says that the project has its packages from another registry than the one
// that would be asked, where somebody else may have put a package of the same name: "" when the operator has named one.
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
		for _, line := range chosen.FindAllString(string(data), -1) {
			scope, _, scoped := strings.Cut(strings.TrimLeft(line, "\" \t"), ":registry")
			if scoped && !strings.HasPrefix(j.name, scope+"/") {
				continue
			}
			if configured == "" && !regexp.MustCompile(`https://(registry\.npmjs\.org|registry\.yarnpkg\.com|pypi\.org/simple)/?["']?\s*$`).MatchString(line) {
				return file + " of the project has it from elsewhere: " + shorten(strings.TrimSpace(line)), nil
			}
		}
	}
	return "", nil
}
