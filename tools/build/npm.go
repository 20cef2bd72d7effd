package build

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// npmNames are the names of packages of npm, with or without scope.
const npmNames = `^(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*$`

// npmVersions are versions, ranges of one comparator, and tags.
const npmVersions = `^([~^]?v?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?|[a-z][a-z0-9-]*)$`

// npmRanges are what a manifest may ask for: ranges and tags of the registry, no URL, path, alias or repository.
const npmRanges = `^[0-9A-Za-z.*^~<>=| +-]*$`

func npm() manager {
	m := nodeManager()
	m.name, m.locks, m.locked = "npm", []string{"package-lock.json", "npm-shrinkwrap.json"}, lockedNPM
	m.install = func(ctx context.Context, j job) (string, error) {
		_, err := j.run(ctx, map[string]string{"npm_config_registry": j.cfg.NPMRegistry, "npm_config_update_notifier": "false"}, "npm",
			"install", "--prefix", j.dir, "--ignore-scripts", "--no-audit", "--no-fund", "--save", "--", j.npmSpec())
		if err != nil {
			return "", err
		}
		return j.nodeVersion()
	}
	return m
}

func yarn() manager {
	m := nodeManager()
	m.name, m.locks, m.locked = "yarn", []string{"yarn.lock"}, lockedYarn
	m.install = func(ctx context.Context, j job) (string, error) {
		_, err := j.run(ctx, map[string]string{"npm_config_registry": j.cfg.NPMRegistry}, "yarn",
			"add", "--ignore-scripts", "--non-interactive", j.npmSpec())
		if err != nil {
			return "", err
		}
		return j.nodeVersion()
	}
	return m
}

// nodeManager is what the managers of Node.js have in common.
func nodeManager() manager {
	return manager{
		manifests: []string{"package.json"},
		names:     regexp.MustCompile(npmNames), versions: regexp.MustCompile(npmVersions), ranges: regexp.MustCompile(npmRanges), and: " ",
		canonical: func(name string) string { return name }, holds: same, accepts: npmAccepts, required: inPackageJSON, others: missingNode,
	}
}

func same(a, b string) bool { return a == b }

// npmSpec is the package with its version.
func (j job) npmSpec() string {
	if j.want == "" {
		return j.name + "@latest"
	}
	return j.name + "@" + j.want
}

// nodeVersion reads the version of an installed package, "" when it is not there.
func (j job) nodeVersion() (string, error) {
	data, err := j.read("node_modules/" + j.name + "/package.json")
	if err != nil || data == nil {
		return "", err
	}
	var manifest struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.Unmarshal(data, &manifest) != nil {
		return "", fault.New(fault.ExecFailed, "the package.json of %s is no valid JSON", j.name)
	}
	if manifest.Name != j.name {
		return "", fault.New(fault.ExecFailed, "%s has installed %s in the place of %s", j.manager.name, shorten(manifest.Name), j.name).WithReason("OTHER_VERSION")
	}
	return manifest.Version, nil
}

// inPackageJSON reads the tables of dependencies of package.json.
func inPackageJSON(p project) ([]requirement, error) {
	var manifest map[string]json.RawMessage
	if err := p.readJSON("package.json", &manifest); err != nil {
		return nil, err
	}
	var all []requirement
	for _, key := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
		var packages map[string]string
		if json.Unmarshal(manifest[key], &packages) != nil {
			continue
		}
		for name, version := range packages {
			if version == "*" || version == "x" {
				version = ""
			}
			all = append(all, requirement{name: name, version: version, elsewhere: !regexp.MustCompile(npmRanges).MatchString(version)})
		}
	}
	slices.SortFunc(all, func(a, b requirement) int { return strings.Compare(a.name+" "+a.version, b.name+" "+b.version) })
	return all, nil
}

func (p project) readJSON(name string, into any) error {
	data, err := p.read(name)
	if err != nil || data == nil {
		return err
	}
	if json.Unmarshal(data, into) != nil {
		return fault.New(fault.ExecFailed, "%s in %s is no valid JSON", name, p.dir)
	}
	return nil
}

// lockedNPM returns the version of a package in the lock file, which has one of two forms.
func lockedNPM(p project, name string) (string, error) {
	type entry struct {
		Version string `json:"version"`
	}
	var lock struct {
		Packages     map[string]entry `json:"packages"`
		Dependencies map[string]entry `json:"dependencies"`
	}
	for _, file := range []string{"npm-shrinkwrap.json", "package-lock.json"} {
		if err := p.readJSON(file, &lock); err != nil {
			return "", err
		}
		for _, e := range []entry{lock.Packages["node_modules/"+name], lock.Dependencies[name]} {
			if exactNPM(e.Version) {
				return e.Version, nil
			}
		}
	}
	return "", nil
}

// exactNPM reports whether a text is one version.
func exactNPM(version string) bool {
	return regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`).MatchString(version)
}

// lockedYarn returns the version of a package in yarn.lock, when there is one alone.
func lockedYarn(p project, name string) (string, error) {
	data, err := p.read("yarn.lock")
	mine, versions := false, []string{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		switch {
		case len(words) == 0:
		case !strings.HasPrefix(line, " "):
			mine = strings.HasPrefix(words[0], name+"@")
		case mine && len(words) == 2 && strings.TrimSuffix(words[0], ":") == "version" && exactNPM(words[1]):
			versions = append(versions, words[1])
		}
	}
	if len(versions) != 1 {
		return "", err
	}
	return versions[0], err
}
